/* Included before the C of every kernel that is built with the limited API (setup.py).

   Cython's module start imports `inspect` for seven constants that the limited headers leave out, which takes longer
   than an interpreter needs to start, and Cython has no switch for it. The constants, the same in every CPython since
   3.6, are defined here; the import, whose result is then unused, gets `sys`. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#define CO_OPTIMIZED 0x0001
#define CO_NEWLOCALS 0x0002
#define CO_VARARGS 0x0004
#define CO_VARKEYWORDS 0x0008
#define CO_GENERATOR 0x0020
#define CO_COROUTINE 0x0080
#define CO_ASYNC_GENERATOR 0x0200

static inline PyObject *whence_import(const char *name) {
    return PyImport_ImportModule(strcmp(name, "inspect") ? name : "sys");
}
#define PyImport_ImportModule whence_import
