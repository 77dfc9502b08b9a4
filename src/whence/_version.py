__version__ = "1.0.0rc1"
HOME_PAGE = ""  # as in [project.urls] of pyproject.toml, once the project has a public address
