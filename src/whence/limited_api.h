/* Read before every kernel's C (setup.py).

   With the limited API, Cython's start-up code imports the module inspect only to read seven constants that the limited
   headers leave out. That import takes 5 ms, a tenth of the time in which `whence addr` answers. The constants are given
   here (they are those of every Python from 3.6 on), so that whatever is imported instead is never looked at.

   It imports collections.abc for two classes, too. That is _collections_abc by another name, which Python has loaded when
   it starts; by this name the package collections would be imported, and four modules with it. */
#ifdef __clang__
#define CYTHON_SMALL_CODE __attribute__((minsize)) /* what runs once a module; Cython knows GCC's word for it only */
#endif

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
    if (!strcmp(name, "inspect"))
        name = "sys";
    else if (!strcmp(name, "collections.abc"))
        name = "_collections_abc";
    return PyImport_ImportModule(name);
}
#define PyImport_ImportModule whence_import
