"""The model of a profile, in columns: samples, locations, mappings, frames.

addresses     vaddrs of addresses in mappings
bounds        limits of readers
chains        chains of frames as columns
difference    one profile minus another
kernel        mappings of the kernel and of its modules
kinds         kinds of addresses: file, kernel, generated code
merging       merging of several profiles
model         Profile data: columns, mappings, sample types
stacks        stacks as lists of display frames
text          bytes of unknown encoding as text
threads       threads of samples, from their labels
wire          protocol buffers: fields, varints
"""
