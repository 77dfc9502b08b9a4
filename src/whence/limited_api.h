/* Read before every kernel's C (setup.py).

   With the limited API, Cython's start-up code imports the module inspect only to read seven constants that the limited
   headers leave out. That import takes 5 ms, a tenth of the time in which `whence addr` answers. The constants are given
   here (they are those of every Python from 3.6 on), so that whatever is imported instead is never looked at.

   It imports collections.abc for two classes, too. That is _collections_abc by another name, which Python has loaded when
   it starts; by this name the package collections would be imported, and four modules with it. The code that memory
   views share calls Python's __import__ for it: setup.py puts whence_importer() in its place. Of types it takes the
   classes of methods and of code, which any that are there have. */
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

static inline int whence_add_class(PyObject *module, const char *name, PyObject *owner, const char *attribute) {
    PyObject *found = owner ? PyObject_GetAttrString(owner, attribute) : NULL;
    int added = found && !PyObject_SetAttrString(module, name, (PyObject *)Py_TYPE(found));
    Py_XDECREF(found);
    return added;
}

static inline PyObject *whence_types(void) {
    PyObject *module = PyModule_New("types"), *frozen = PyImport_ImportModule("_frozen_importlib");
    PyObject *importer = frozen ? PyObject_GetAttrString(frozen, "BuiltinImporter") : NULL;
    PyObject *function = frozen ? PyObject_GetAttrString(frozen, "_find_and_load") : NULL;
    if (module && !(whence_add_class(module, "MethodType", importer, "find_spec") &&
                    whence_add_class(module, "CodeType", function, "__code__")))
        Py_CLEAR(module);
    Py_XDECREF(function);
    Py_XDECREF(importer);
    Py_XDECREF(frozen);
    return module;
}

static inline PyObject *whence_import(const char *name) {
    if (!strcmp(name, "inspect"))
        name = "sys";
    else if (!strcmp(name, "types"))
        return whence_types();
    else if (!strcmp(name, "collections.abc"))
        name = "_collections_abc";
    return PyImport_ImportModule(name);
}

static PyObject *whence_collections(PyObject *self, PyObject *name) {
    PyObject *module = PyModule_New("collections"), *classes = PyImport_ImportModule("_collections_abc");
    (void)self, (void)name;
    if (module && (!classes || PyObject_SetAttrString(module, "abc", classes)))
        Py_CLEAR(module);
    Py_XDECREF(classes);
    return module;
}

static inline PyObject *whence_importer(void) {
    static PyMethodDef importer = {"collections", whence_collections, METH_O, NULL};
    return PyCFunction_NewEx(&importer, NULL, NULL);
}
#define PyImport_ImportModule whence_import
