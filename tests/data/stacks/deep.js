// JavaScript that native code called, which JavaScript called: "crash" ends it, else it waits for ever.
const shared = new Int32Array(new SharedArrayBuffer(4));

function inner(n) {
    if (n) return inner(n - 1) + 1;
    if (process.argv[2] == "crash") process.abort();
    Atomics.wait(shared, 0, 0);
    return 0;
}

function sorted() {
    return [3, 1, 2].sort((a, b) => inner(4) + a - b);
}

"abc".replace(/b/, () => `${sorted()}`);
