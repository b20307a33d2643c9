from typing import Any, final

@final
class JsonDocuments:
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

def write_json(structs: Any) -> JsonDocuments: ...
