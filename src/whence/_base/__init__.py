"""What every package may import: errors, files, budgets, locks, records, reasons. Knows no formats.

amounts    values of profiles with their units
budget     how much a reader may do: a constant times the stored bytes plus an allowance
child      child processes that are handed work over a socket
closing    objects that are closed at the end of a `with` block
cores      work on several threads, and how many are worth starting
deflate    the fastest zlib that is installed
errors     the error tree: file, fault, rule, code
files      opening regular files, writing files whole or not at all
forks      locks that are free in a forked child
html       tables for notebooks
lru        a bounded cache
mapped     mapped files that others may truncate or overwrite meanwhile
model      Frame, Frames and the conventions of names and paths
options    what to read from an object file, passed as one value
reasons    why an address has no frames: word, sentence, remedy
records    classes of named fields
rooted     paths below the root of another process, resolved inside it
source     which table a name was read from
streams    standard input and output: lines, broken pipes
window     named bytes with checked bounds
words      numbers and lists in messages
lazy       public names of a package, imported when they are used
"""
