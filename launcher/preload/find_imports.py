"""find_imports.py: --preload auto: what a program, and the modules beside it, import
from installed packages. Reads their text, and runs none of it. The first part of
the program that imports.py describes.
"""
import os
import sys


class ImportFinder:
    """Follows the import statements of a program that run when it is loaded."""

    def __init__(self):
        from importlib.machinery import PathFinder
        self.path_finder = PathFinder
        self.has_folder = not (sys.flags.isolated or
                               getattr(sys.flags, "safe_path", False))
        self.parsed = set()
        self.found = []  # (module, names taken from it), in order

    # ---- modules by name ----

    def beside(self, name):
        """The spec of a module in the program's own folder, or None."""
        if not self.has_folder:
            return None
        spec = self.path_finder.find_spec(name, [sys.path[0]])
        # a folder without __init__.py comes after an installed package
        is_folder = spec and spec.origin is None
        return None if is_folder and self.is_installed(name) else spec

    @staticmethod
    def is_installed(name):
        from importlib.util import find_spec
        if name in getattr(sys, "stdlib_module_names", ()):
            return False
        try:
            spec = find_spec(name)
        except (ImportError, ValueError):
            return False
        origin = spec and spec.origin
        if not origin:
            return False
        library = os.path.dirname(os.__file__) + os.sep
        return origin not in ("built-in", "frozen") and (
            not origin.startswith(library) or
            origin.startswith((library + "site-packages",
                               library + "dist-packages")))

    @staticmethod
    def files_of(spec, name):
        """The texts that the import of a module beside the program would run."""
        folder = os.path.dirname(spec.origin or "")
        if spec.submodule_search_locations:
            folder = list(spec.submodule_search_locations)[0]
            yield os.path.join(folder, "__init__.py"), spec.name
        elif spec.origin:
            yield spec.origin, ""
        package = spec.name
        for part in name.split(".")[1:]:
            path = os.path.join(folder, part)
            if os.path.isdir(path):
                package += "." + part
                folder = path
                yield os.path.join(path, "__init__.py"), package
            else:
                yield path + ".py", package

    # ---- texts ----

    def statements(self, body):
        import ast
        for node in body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield node
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            elif isinstance(node, ast.If) and \
                    "TYPE_CHECKING" in ast.dump(node.test):
                yield from self.statements(node.orelse)
            else:
                for field in ("body", "orelse", "handlers", "finalbody"):
                    yield from self.statements(getattr(node, field, ()))

    def parse(self, path, package):
        import ast
        path = os.path.realpath(path)
        if path in self.parsed:
            return
        self.parsed.add(path)
        try:
            with open(path, "rb") as f:
                tree = ast.parse(f.read())
        except (OSError, SyntaxError, ValueError, RecursionError):
            return  # the program itself will say so
        for node in self.statements(tree.body):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.follow(alias.name, ())
                continue
            name = node.module or ""
            if node.level:
                base = package.split(".")
                base = base[:len(base) - node.level + 1]
                name = ".".join(base + ([name] if name else []))
            self.follow(name, tuple(a.name for a in node.names
                                    if a.name != "*"))

    def follow(self, name, wanted):
        top = name.partition(".")[0]
        if not top:
            return
        spec = self.beside(top)
        if spec:
            for full in [name] + [name + "." + one for one in wanted]:
                for path, package in self.files_of(spec, full):
                    self.parse(path, package)
        elif self.is_installed(top):
            self.found.append((name, wanted))

    def follow_program(self, name):
        """A module that is run: its packages are imported."""
        from importlib.util import find_spec
        top = name.partition(".")[0]
        spec = self.beside(top)
        if not spec:
            spec = find_spec(top)
            if "." in name and self.is_installed(top):
                self.found.append((name.rpartition(".")[0], ()))
        if not spec:
            return
        for path, package in list(self.files_of(spec, name)) + list(
                self.files_of(spec, name + ".__main__")):
            self.parse(path, package)


def found_imports(what, name):
    """(module, names taken from it) for each import; what: script or module."""
    finder = ImportFinder()
    try:
        if what == "module":
            finder.follow_program(name)
        else:
            finder.parse(name, "")
    except (ImportError, ValueError):
        pass
    return list(dict.fromkeys(finder.found))
