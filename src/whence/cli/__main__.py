from whence.cli.main import leave, main

leave(main())
