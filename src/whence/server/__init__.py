"""`whence serve`: a store and a symbolizer over HTTP, as one ASGI application on Starlette.

    app.py              the application: routes, and a middleware around them
    state.py            the state that the endpoints share
    settings.py         the settings: store, limits, tokens, upstream servers
    run.py              runs the application by granian or uvicorn
    access.py           tokens with scopes
    access_log.py       a JSON object for each response
    bodies.py           bodies of requests, limited in bytes, time and JSON values; refusals
    deadlines.py        the time limit of a request, checked by the threads that work for it
    threads.py          a limited number of threads for each role
    quick.py            misses, small sections and /metrics, without Starlette
    metrics.py          counts and durations under the names of debuginfod's metrics
    listing.py          the rows of the store's index, cached for seconds
    debuginfod.py       files, sections, sources and metadata by build-id
    globs.py            the shell patterns of /metadata
    pool.py             open archives, the least recently used is closed
    symbol_files.py     symbol files under the paths of symbol servers
    symbolication.py    Mozilla's API: /symbolicate/v5, /source/v1
    naming.py           /symbolize, /profile, OTLP
    stacks.py           /stack: stack tokens
    arrow.py            Arrow streams, checked before pyarrow reads them
    responses.py        JSON in responses
    answers.py          a cache of lines of /symbolize
    misses.py           requests for missing build-ids, recorded in the store
    upstream.py         other debuginfod servers, asked for what the store lacks
    uploads.py          PUT, and Pyroscope's three calls
    parsing.py          parsing of untrusted files in confined processes
    profile_process.py  reads, names and writes a profile in such a process
    sandbox.py          the confinement of such a process
    stalls.py           clients that do not read
    uvicorn_headers.py  limits for headers, which uvicorn lacks
    page/               the web page

The application has no state except the store and caches: any number of processes can serve one store.
"""
