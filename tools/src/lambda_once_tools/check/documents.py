"""
A template's file as plain values: YAML with CloudFormation's short tags, or JSON; SAM expanded.

Nothing in a file is trusted: no tag makes an object, and size, aliases and depth are bounded.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from lambda_once_tools.check.deployment import CannotCheck
from lambda_once_tools.check.intrinsics import MARK_OF_PARAMETER, unmarked

Template = dict[str, Any]

LARGEST: Final = 5_000_000
"""Bytes of a file: CloudFormation takes 1 MB (CloudFormation user guide, quotas); comments may add to it."""
MOST_NODES: Final = 500_000
"""Values of a template, with what its aliases stand for."""
_BODY: Final = "TemplateBody"
"""Where get-template has the template: an object if it is JSON, which botocore decodes, else text."""
SERVERLESS: Final = "AWS::Serverless::"
_TRANSLATED: Final = {f"{SERVERLESS}{kind}" for kind in ("Function", "SimpleTable", "Connector")}
POLLED: Final = {"SQS", "Kinesis", "DynamoDB", "MSK", "MQ", "SelfManagedKafka", "DocumentDB", "SNS"}
"""Events of a function that become event source mappings; SNS may put a queue between."""
_CODE: Final = "s3://not-packaged/code"
_NOT_INSTALLED: Final = "{} is missing: pip install lambda-once-tools"


# -- files


def document(path: Path) -> Template:
    """
    Return the template in the file at *path*, or in what ``aws cloudformation get-template`` printed there.

    Raises `CannotCheck`.
    """
    if path.suffix == ".tf":
        raise CannotCheck(f"{path} is Terraform, which is not read; give a SAM or CloudFormation template")
    try:
        found = _parsed(_text(path), path)
        if isinstance(found, dict) and "Resources" not in found and _BODY in found:
            found = found[_BODY]
        if isinstance(found, str):
            found = _parsed(found, path)
    except RecursionError:
        raise CannotCheck(f"{path} is nested too deeply to be read") from None
    except json.JSONDecodeError as error:
        raise CannotCheck(f"{path} is not JSON: {error}; correct it") from None
    if isinstance(found, dict) and {"service", "provider"} <= found.keys():
        raise CannotCheck(
            f"{path} is a serverless.yml; run `serverless package`, "
            f"and check .serverless/cloudformation-template-update-stack.json"
        )
    if not isinstance(found, dict) or not isinstance(found.get("Resources"), dict):
        raise CannotCheck(
            f"{path} is not a template: it has no Resources; give a SAM or CloudFormation template"
        )
    return found


def _parsed(text: str, path: Path) -> Any:
    return json.loads(text) if text.lstrip().startswith("{") else _yaml(text, path)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise CannotCheck(f"{path} cannot be read: {error.strerror}; give the path of a template") from None
    if len(content) > LARGEST:
        raise CannotCheck(f"{path} has more than {LARGEST} bytes; CloudFormation takes no such template")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CannotCheck(f"{path} is not UTF-8; write it as such") from None


def _yaml(text: str, path: Path) -> Any:
    try:
        import yaml
    except ImportError:
        raise CannotCheck(_NOT_INSTALLED.format("PyYAML")) from None
    reader = loader()(text)
    try:
        root = reader.get_single_node()
        if root is None:
            return None
        if _size(root, {}, path) > MOST_NODES:
            raise CannotCheck(f"{path} has more than {MOST_NODES} values; split it")
        return reader.construct_document(root)
    except yaml.YAMLError as error:
        raise CannotCheck(f"{path} is not YAML: {_problem(error)}; correct it") from None
    finally:
        reader.dispose()


def _size(node: Any, sizes: dict[int, int | None], path: Path) -> int:
    """Return how many values *node* has, each alias counted as what it stands for."""
    known = sizes.get(id(node), 0)
    if known is None:
        raise CannotCheck(f"{path} has an alias inside of what it stands for; correct it")
    if known:
        return known
    sizes[id(node)] = None
    inner = node.value if isinstance(node.value, list) else ()
    parts = (part for each in inner for part in (each if isinstance(each, tuple) else (each,)))
    total = 1 + sum(_size(part, sizes, path) for part in parts)
    sizes[id(node)] = total
    return total


@cache
def loader() -> Any:
    """Return a loader of plain values; a date is text, as in a policy's Version, and a tag is a function."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
        yaml_implicit_resolvers = {  # noqa: RUF012
            letter: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
            for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    def short(reader: Any, tag: str, node: Any) -> dict[str, Any]:
        if isinstance(node, yaml.ScalarNode):
            value: Any = reader.construct_scalar(node)
        elif isinstance(node, yaml.SequenceNode):
            value = reader.construct_sequence(node, deep=True)
        else:
            value = reader.construct_mapping(node, deep=True)
        if tag == "GetAtt" and isinstance(value, str):
            value = value.split(".", 1)
        return {tag if tag in ("Ref", "Condition") else f"Fn::{tag}": value}

    Loader.add_multi_constructor("!", short)
    return Loader


def _problem(error: Any) -> str:
    mark = getattr(error, "problem_mark", None)
    found = _one_line(getattr(error, "problem", None) or error)
    return found if mark is None else f"{found}, line {mark.line + 1}, column {mark.column + 1}"


def _one_line(error: object) -> str:
    return " ".join(str(error).split())


# -- SAM


def is_serverless(template: Template) -> bool:
    """Whether SAM's transform makes resources of *template*."""
    return any(str(each.get("Type", "")).startswith(SERVERLESS) for _, each in resources(template))


def resources(template: Template) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the resources of *template* by their logical ids."""
    for name, each in template["Resources"].items():
        if isinstance(each, dict) and isinstance(each.get("Type"), str):
            yield name, each


def expanded(template: Template, values: Mapping[str, Any], path: Path) -> Template:
    """
    Return *template* as SAM's transform leaves it, as far as rules look at it. Raises `CannotCheck`.

    APIs, and the events that call a function without a mapping, are left out: what they need, such as the
    files of their definitions, is not needed here. Code is in S3, as it would be after ``sam package``.
    *values* are those of parameters and pseudo parameters.
    """
    try:
        from samtranslator.metrics.metrics import DummyMetricsPublisher, Metrics
        from samtranslator.model.exceptions import ExceptionWithMessage, InvalidDocumentException
        from samtranslator.parser.parser import Parser
        from samtranslator.translator.translator import Translator
    except ImportError as error:
        if error.name is None or not error.name.startswith("samtranslator"):
            raise
        raise CannotCheck(_NOT_INSTALLED.format("aws-sam-translator")) from None
    metrics = Metrics("ServerlessTransform", DummyMetricsPublisher())
    try:
        # Of a session it reads the region alone; it asks boto3 for one otherwise, which may have none.
        session = SimpleNamespace(region_name=values["AWS::Region"])
        translator = Translator({}, Parser(), boto_session=session, metrics=metrics)
        reduced = _reduced(template)
        if not reduced["Resources"]:  # APIs alone, or loops; SAM would refuse it
            return reduced
        result: Template = translator.translate(reduced, dict(values))
    except InvalidDocumentException as error:
        raise _refused(path, error.causes) from None
    except ExceptionWithMessage as error:
        raise _refused(path, [error]) from None
    except Exception as error:  # noqa: BLE001 - of malformed templates it raises whatever it stumbles over
        raise CannotCheck(
            f"{path}: SAM cannot expand it: {type(error).__name__}: {_one_line(error)}; run `sam validate`"
        ) from None
    finally:
        metrics.publish()  # nowhere; what is left unpublished is a warning in the log
    return result


def _refused(path: Path, causes: Iterable[Any]) -> CannotCheck:
    text = "; ".join(_one_line(each.message) for each in causes)
    missing = dict.fromkeys(MARK_OF_PARAMETER.findall(text))
    advice = f"pass {' '.join(f'--parameter {name}=VALUE' for name in missing)}" if missing else "correct it"
    return CannotCheck(f"{path}: SAM cannot expand it: {unmarked(text)}; {advice}")


def _reduced(template: Template) -> Template:
    reduced = copy.deepcopy(template)
    for name in [each for each in reduced["Resources"] if str(each).startswith("Fn::")]:
        del reduced["Resources"][name]
    sections: Any = reduced.get("Globals")
    for name in {*sections} - {"Function", "SimpleTable"} if isinstance(sections, dict) else ():
        del sections[name]
    for name, each in list(resources(reduced)):
        match each["Type"]:
            case "AWS::Serverless::LayerVersion":
                each["Type"] = "AWS::Lambda::LayerVersion"
            case "AWS::Serverless::Application":
                each["Type"] = "AWS::CloudFormation::Stack"
            case kind if kind.startswith(SERVERLESS) and kind not in _TRANSLATED:
                del reduced["Resources"][name]
            case _:
                pass
    shared = (sections or {}).get("Function") or {}
    shared.pop("CodeUri", None)
    shared.pop("TenancyConfig", None)
    functions = [each for _, each in resources(reduced) if each["Type"] == f"{SERVERLESS}Function"]
    for each in functions:
        _prepare(each, shared.get("PackageType"))
    for name, each in list(resources(reduced)):
        _keep_where(each.get("Connectors"), lambda each: _connects(each.get("Properties"), reduced))
        if each["Type"] == f"{SERVERLESS}Connector" and not _connects(each.get("Properties"), reduced):
            del reduced["Resources"][name]
    return reduced


def _prepare(function: dict[str, Any], shared_package: Any) -> None:
    """Leave out of a function what needs other resources or forbids others, and let its code be packaged."""
    properties = function.setdefault("Properties", {})
    if not isinstance(properties, dict):
        return
    properties.pop("TenancyConfig", None)
    if "InlineCode" not in properties:
        is_image = "Image" in (shared_package, properties.get("PackageType"))
        properties |= {"ImageUri": "image"} if is_image else {"CodeUri": _CODE}
    _keep_where(properties.get("Events"), lambda each: each.get("Type") in POLLED)


def _connects(properties: Any, template: Template) -> bool:
    """Whether what a connector names is still in *template*."""
    ends = (
        [properties.get(end, {}) for end in ("Source", "Destination")] if isinstance(properties, dict) else []
    )
    named = [one.get("Id") for end in ends for one in (end if isinstance(end, list) else [end]) if one]
    return all(name is None or name in template["Resources"] for name in named)


def _keep_where(mapping: Any, wanted: Callable[[Any], bool]) -> None:
    for name in list(mapping) if isinstance(mapping, dict) else ():
        if isinstance(mapping[name], dict) and not wanted(mapping[name]):
            del mapping[name]
