"""The model of a profile, in columns: samples, locations, mappings, frames.

addresses     from a mapping and an address to a vaddr
bounds        limits of readers
chains        chains of frames as columns
difference    one profile minus another
kernel        mappings of the kernel and of its modules
kinds         kinds of addresses: file, kernel, generated code
merging       several profiles as one
model         Profile data: columns, mappings, sample types
stacks        stacks as lists of frames
text          bytes of unknown encoding as text
threads       names of processes and threads
wire          protocol buffers: fields, varints
"""
