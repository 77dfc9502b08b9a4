// A body may be missing in a package with assembly: expand is the runtime's.
