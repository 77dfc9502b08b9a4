# Arrow's C data interface (https://arrow.apache.org/docs/format/CDataInterface.html): its structures, and reference
# counting of imported arrays. Nothing here needs the GIL: any thread may release an array.

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset, strdup

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    struct ArrowSchema {
      const char* format;
      const char* name;
      const char* metadata;
      int64_t flags;
      int64_t n_children;
      struct ArrowSchema** children;
      struct ArrowSchema* dictionary;
      void (*release)(struct ArrowSchema*);
      void* private_data;
    };
    struct ArrowArray {
      int64_t length;
      int64_t null_count;
      int64_t offset;
      int64_t n_buffers;
      int64_t n_children;
      const void** buffers;
      struct ArrowArray** children;
      struct ArrowArray* dictionary;
      void (*release)(struct ArrowArray*);
      void* private_data;
    };
    #endif
    #ifndef ARROW_C_STREAM_INTERFACE
    #define ARROW_C_STREAM_INTERFACE
    struct ArrowArrayStream {
      int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
      int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
      const char* (*get_last_error)(struct ArrowArrayStream*);
      void (*release)(struct ArrowArrayStream*);
      void* private_data;
    };
    #endif
    #if defined(_MSC_VER)
    #include <intrin.h>
    #define WHENCE_ADD(counter, more) (_InterlockedExchangeAdd((counter), (more)) + (more))
    #else
    #define WHENCE_ADD(counter, more) __atomic_add_fetch((counter), (more), __ATOMIC_ACQ_REL)
    #endif
    """
    cdef struct ArrowSchema:
        const char* format
        const char* name
        const char* metadata
        int64_t flags
        int64_t n_children
        ArrowSchema** children
        ArrowSchema* dictionary
        void (*release)(ArrowSchema*) noexcept nogil
        void* private_data

    cdef struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void** buffers
        ArrowArray** children
        ArrowArray* dictionary
        void (*release)(ArrowArray*) noexcept nogil
        void* private_data

    cdef struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
        int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept nogil
        const char* (*get_last_error)(ArrowArrayStream*) noexcept nogil
        void (*release)(ArrowArrayStream*) noexcept nogil
        void* private_data

    long WHENCE_ADD(long* counter, long more) nogil

cdef enum:
    NULLABLE = 2  # ARROW_FLAG_NULLABLE


# An imported array and its schema, with a count of the objects that refer to their memory; the last one releases them.
cdef struct Shared:
    long references
    ArrowArray array
    ArrowSchema schema


cdef inline void share(Shared* shared) noexcept nogil:
    WHENCE_ADD(&shared.references, 1)


cdef inline void release_shared(Shared* shared) noexcept nogil:
    """Drop a reference; the last one releases the array and its schema."""
    if shared == NULL or WHENCE_ADD(&shared.references, -1) > 0:
        return
    if shared.array.release != NULL:
        shared.array.release(&shared.array)
    if shared.schema.release != NULL:
        shared.schema.release(&shared.schema)
    free(shared)


cdef inline void release_array(ArrowArray* array) noexcept nogil:
    """Release an array made by new_array: its release callback."""
    cdef Shared* shared = <Shared*>array.private_data
    cdef int64_t index
    for index in range(array.n_children):
        if array.children[index] != NULL:
            if array.children[index].release != NULL:
                array.children[index].release(array.children[index])
            free(array.children[index])
    free(array.children)
    if array.dictionary != NULL:
        if array.dictionary.release != NULL:
            array.dictionary.release(array.dictionary)
        free(array.dictionary)
    if shared == NULL and array.buffers != NULL:
        for index in range(array.n_buffers):
            free(<void*>array.buffers[index])
    free(array.buffers)
    release_shared(shared)
    array.release = NULL


cdef inline bint new_array(ArrowArray* out, int64_t length, int64_t buffers, int64_t children) noexcept nogil:
    """Make an array that owns its buffers (by malloc, NULL so far) and its children (empty so far). False without memory."""
    cdef int64_t index
    memset(out, 0, sizeof(ArrowArray))
    out.length = length
    out.buffers = <const void**>calloc(buffers + 1, sizeof(void*))
    out.children = <ArrowArray**>calloc(children + 1, sizeof(ArrowArray*))
    out.release = release_array
    if out.buffers != NULL:
        out.n_buffers = buffers
    if out.children == NULL:
        return False
    out.n_children = children
    for index in range(children):
        out.children[index] = <ArrowArray*>calloc(1, sizeof(ArrowArray))
        if out.children[index] == NULL:
            return False
    return out.buffers != NULL


cdef inline bint copy_array(ArrowArray* out, const ArrowArray* source, Shared* shared) noexcept nogil:
    """Make an array with the buffers of `source`, whose memory `shared` owns. False without memory."""
    cdef int64_t index
    if not new_array(out, source.length, source.n_buffers, source.n_children):
        out.n_buffers = 0
        return False
    out.private_data = shared
    share(shared)
    out.null_count, out.offset = source.null_count, source.offset
    for index in range(source.n_buffers):
        out.buffers[index] = source.buffers[index]
    for index in range(source.n_children):
        if not copy_array(out.children[index], source.children[index], shared):
            return False
    if source.dictionary != NULL:
        out.dictionary = <ArrowArray*>calloc(1, sizeof(ArrowArray))
        return out.dictionary != NULL and copy_array(out.dictionary, source.dictionary, shared)
    return True


cdef inline void release_schema(ArrowSchema* schema) noexcept nogil:
    """Release a schema made by new_schema: its release callback."""
    cdef int64_t index
    for index in range(schema.n_children):
        if schema.children[index] != NULL:
            if schema.children[index].release != NULL:
                schema.children[index].release(schema.children[index])
            free(schema.children[index])
    free(schema.children)
    if schema.dictionary != NULL:
        if schema.dictionary.release != NULL:
            schema.dictionary.release(schema.dictionary)
        free(schema.dictionary)
    free(<void*>schema.format)
    free(<void*>schema.name)
    free(<void*>schema.metadata)
    schema.release = NULL


cdef inline bint new_schema(ArrowSchema* out, const char* format, const char* name, int64_t children) noexcept nogil:
    """Make a nullable field with children that are empty so far. False without memory."""
    cdef int64_t index
    memset(out, 0, sizeof(ArrowSchema))
    out.flags = NULLABLE
    out.release = release_schema
    out.format = strdup(format)
    out.name = strdup(name) if name != NULL else <char*>calloc(1, 1)
    out.children = <ArrowSchema**>calloc(children + 1, sizeof(ArrowSchema*))
    if out.format == NULL or out.name == NULL or out.children == NULL:
        return False
    out.n_children = children
    for index in range(children):
        out.children[index] = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
        if out.children[index] == NULL:
            return False
    return True


cdef inline int64_t metadata_size(const char* metadata) noexcept nogil:
    """Return the size of a schema's metadata: pairs of keys and values, a 32-bit length before each."""
    cdef int32_t pairs, size
    cdef int64_t total = 4
    cdef int32_t part
    memcpy(&pairs, metadata, 4)
    for part in range(2 * pairs):
        memcpy(&size, metadata + total, 4)
        total += 4 + size
    return total


cdef inline bint copy_schema(ArrowSchema* out, const ArrowSchema* source) noexcept nogil:
    """Make a copy of a schema. False without memory."""
    cdef int64_t index
    if not new_schema(out, source.format, source.name, source.n_children):
        return False
    out.flags = source.flags
    if source.metadata != NULL:
        out.metadata = <const char*>malloc(metadata_size(source.metadata))
        if out.metadata == NULL:
            return False
        memcpy(<void*>out.metadata, source.metadata, metadata_size(source.metadata))
    for index in range(source.n_children):
        if not copy_schema(out.children[index], source.children[index]):
            return False
    if source.dictionary != NULL:
        out.dictionary = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
        return out.dictionary != NULL and copy_schema(out.dictionary, source.dictionary)
    return True
