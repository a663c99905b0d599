# The runner `python`: runs a model's own code. Section 5 of docs/spec/runner.md. wire.py is prepended to this file.
import importlib.util, types

PACKAGE = "_carton_model_module"

if sys.path and sys.path[0] == "":
    del sys.path[0]


class Python:
    name = "python"

    def start(self):
        return {"version": "%d.%d.%d" % sys.version_info[:3]}

    def load(self, folder, options, _):
        """Returns the function that runs the model in `folder`."""
        package, function = options.get("entrypoint_package"), options.get("entrypoint_fn")
        for name, value in (("entrypoint_package", package), ("entrypoint_fn", function)):
            if not isinstance(value, str) or not value:
                raise Failure("entry", "the option `%s` is missing" % name)
        # Modules in `model` can import each other relatively, as parts of one package, or by name.
        init = os.path.join(folder, "__init__.py")
        sys.path.insert(0, folder)
        name = "%s.%s" % (PACKAGE, package)
        try:
            if os.path.exists(init):
                spec = importlib.util.spec_from_file_location(
                    PACKAGE, init, submodule_search_locations=[folder]
                )
                sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(sys.modules[PACKAGE])
            else:
                sys.modules[PACKAGE] = types.ModuleType(PACKAGE)
                sys.modules[PACKAGE].__path__ = [folder]
            module = importlib.import_module(name)
        except ModuleNotFoundError as e:
            if e.name == name or name.startswith("%s." % e.name):
                raise Failure("entry", "there is no module `%s` in `model`" % package)
            traceback.print_exc()
            raise Failure("load", "module `%s` cannot be imported: %s" % (package, exception_text(e)))
        except BaseException as e:
            traceback.print_exc()
            raise Failure("load", "module `%s`: %s: %s" % (package, type(e).__name__, exception_text(e)))
        entry = getattr(module, function, None)
        if not callable(entry):
            raise Failure("entry", "there is no function `%s` in module `%s`" % (function, package))
        try:
            model = entry()
        except BaseException as e:
            traceback.print_exc()
            raise Failure("load", "`%s.%s`: %s: %s" % (package, function, type(e).__name__, exception_text(e)))
        if hasattr(model, "infer_with_tensors"):
            return model.infer_with_tensors
        if hasattr(model, "seal") and hasattr(model, "infer_with_handle"):
            return lambda tensors: model.infer_with_handle(model.seal(tensors))
        if callable(model):
            return model
        message = "`%s.%s` returned %s, which has no `infer_with_tensors` and cannot be called"
        raise Failure("entry", message % (package, function, kind_of(model)))


serve(Python())
