"""`whence serve`: a store and a symbolizer over HTTP, one ASGI application on Starlette.

    app.py            the application: routes, what every answer has in common
    state.py          what the endpoints share: the store, what is open of it, limits, counts
    settings.py       what a server is started with: the store, limits, tokens, upstreams
    access.py         who may do what: tokens with scopes
    bodies.py         bodies of requests, bounded in bytes, time and JSON values; what is refused, and how
    deadlines.py      the time of a request, looked at while threads work for it
    access_log.py     a JSON object for each answer
    quick.py          misses, small sections and /metrics, without Starlette
    listing.py        what the store's index says, read now and then
    metrics.py        counts and durations under the names that debuginfod's dashboards have
    debuginfod.py     files, sections, sources and metadata by build-id
    globs.py          shell patterns of /metadata
    pool.py           open archives, the least recently used goes
    symbolication.py  Mozilla's API: /symbolicate/v5, /source/v1
    naming.py         /symbolize, /profile, OTLP in and out
    arrow.py          Arrow streams, looked at before they are unpacked
    answers.py        lines of /symbolize that were made already
    misses.py         questions without an answer, on their way into the store
    upstream.py       other debuginfod servers, asked for what is not in the store
    uploads.py        files in: PUT, and Pyroscope's three calls
    uvicorn_headers.py  a time for headers, which uvicorn lacks
    stalls.py         clients that read nothing
    parsing.py        a stranger's file is parsed in a process of its own
    profile_process.py  reading, naming and writing a profile there
    messages.py       what the server and such processes send each other
    sandbox.py        what such a process gives up
    page/             the page
    run.py            granian or uvicorn, with what the options say
    threads.py        thread pools per role, with bounded queues

The application has no state but the store and what it holds open: any number of them serve one store.
"""
