"""OTLP profiles against opentelemetry-proto: read, named in place, written; binary and JSON say the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.survive import survives
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.flamegraph import page
from whence.profiles.formats import folded, gz, otlp, pprof, written
from whence.profiles.formats import registry as formats
from whence.samples import wire
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, SampleType

proto = pytest.importorskip("opentelemetry.proto.profiles.v1development.profiles_pb2")
BUILD_ID = "ab" * 20


def message() -> Any:
    """Two OTLP profiles over one dictionary: locations 1 (unnamed), 2 (named, inlined), 3 (no mapping)."""
    data = proto.ProfilesData()
    book = data.dictionary
    texts = ["", "cpu", "nanoseconds", "/bin/app", "process.executable.build_id.gnu", "samples", "count"]
    book.string_table.extend([*texts, "inner", "outer", "/src/a.c", "thread.name", "thread.id"])
    book.mapping_table.add()
    book.mapping_table.add(memory_start=0x400000, memory_limit=0x500000, file_offset=0x1000, filename_strindex=3)
    book.mapping_table[1].attribute_indices.append(1)
    book.location_table.add()
    book.location_table.add(mapping_index=1, address=0x401000, attribute_indices=[2])
    named = book.location_table.add(mapping_index=1, address=0x402000)
    named.lines.add(function_index=1, line=12, column=3)
    named.lines.add(function_index=2, line=30)
    book.location_table.add(address=0xFFFF)
    book.function_table.add()
    book.function_table.add(name_strindex=7, filename_strindex=9)
    book.function_table.add(system_name_strindex=8)
    book.attribute_table.add()
    book.attribute_table.add(key_strindex=4).value.string_value = BUILD_ID
    book.attribute_table.add(key_strindex=10).value.string_value = "main"
    book.attribute_table.add(key_strindex=11).value.int_value = 42
    book.link_table.add()
    book.stack_table.add()
    book.stack_table.add(location_indices=[1, 2])
    book.stack_table.add(location_indices=[3, 2])
    resource = data.resource_profiles.add()
    resource.resource.attributes.add(key="host.name").value.string_value = "h"
    scope = resource.scope_profiles.add()
    cpu = scope.profiles.add(time_unix_nano=5, duration_nano=6, period=7, profile_id=b"0123456789abcdef")
    cpu.sample_type.type_strindex, cpu.sample_type.unit_strindex = 1, 2
    cpu.samples.add(stack_index=1, values=[10, 5], attribute_indices=[2, 3], timestamps_unix_nano=[1, 2])
    cpu.samples.add(stack_index=2, values=[-3])
    counts = scope.profiles.add()
    counts.sample_type.type_strindex, counts.sample_type.unit_strindex = 5, 6
    counts.samples.add(stack_index=1, timestamps_unix_nano=[1, 2, 3])
    return data


def as_json(data: Any) -> bytes:
    json_format = pytest.importorskip("google.protobuf.json_format")
    return str(json_format.MessageToJson(data)).encode()


FORMS = {"binary": lambda: message().SerializeToString(), "json": lambda: as_json(message())}


@pytest.mark.parametrize("form", FORMS)
def test_reads_both_forms_equally(form: str) -> None:
    profile = otlp.read(FORMS[form]())
    assert profile.sample_types == [SampleType("cpu", "nanoseconds"), SampleType("samples", "count")]
    assert profile.mappings[1] == Mapping(0x400000, 0x500000, 0x1000, "/bin/app", BUILD_ID)
    assert list(profile.mapping) == [1, 1, NO_MAPPING]
    assert list(profile.address) == [0x401000, 0x402000, 0xFFFF]
    assert profile.frames == [(), (Frame("inner", "/src/a.c", 12, True), Frame("outer", "", 30)), ()]
    samples = profile.samples
    assert [list(column) for column in samples.values] == [[15, -3, 0], [0, 0, 3]]
    assert [list(samples.locations(i)) for i in range(3)] == [[0, 1], [2, 1], [0, 1]]
    assert samples.labels[0] == (Label("thread.name", "main"), Label("thread.id", number=42))


@pytest.mark.parametrize("form", FORMS)
def test_writes_a_profile_as_it_was_read(form: str) -> None:
    data = FORMS[form]()
    out = otlp.write(otlp.read(data))
    assert out == data if form == "binary" else json.loads(out) == json.loads(data)


@pytest.mark.parametrize("form", FORMS)
def test_naming_changes_only_lines_functions_and_strings(form: str) -> None:
    json_format = pytest.importorskip("google.protobuf.json_format")
    profile = otlp.read(FORMS[form]())
    profile.name(0, (Frame("leaf", "/src/b.c", 3, True), Frame("readable", "", 4)))
    profile.system_names["readable"] = "_Zraw"
    out = otlp.write(profile)
    got = proto.ProfilesData()
    if form == "binary":
        got.ParseFromString(out)
    else:
        json_format.Parse(out, got)
    want = message()
    book = want.dictionary
    book.location_table[1].lines.add(function_index=3, line=3)
    book.location_table[1].lines.add(function_index=4, line=4)
    book.string_table.extend(["leaf", "/src/b.c", "readable", "_Zraw"])
    book.function_table.add(name_strindex=12, system_name_strindex=12, filename_strindex=13)
    book.function_table.add(name_strindex=14, system_name_strindex=15)
    assert got == want


def test_a_dictionary_after_or_before_the_profiles_is_found_and_its_neighbours_are_kept() -> None:
    data = message()
    tail = wire.payload(9, b"\xff\xff unknown \xff")
    only = proto.ProfilesData(dictionary=data.dictionary).SerializeToString()
    rest = proto.ProfilesData(resource_profiles=data.resource_profiles).SerializeToString()
    for before, after in ((tail, rest), (rest + tail, b"")):
        profile = otlp.read(before + only + after)
        profile.name(0, (Frame("leaf"),))
        out = otlp.write(profile)
        assert out.startswith(before)
        assert out.endswith(after)
        assert otlp.read(out).frames[0] == (Frame("leaf"),)


@pytest.mark.parametrize("json_form", [False, True])
def test_a_profile_from_pprof_is_written_as_otlp_that_others_read(json_form: bool) -> None:
    json_format = pytest.importorskip("google.protobuf.json_format")
    source = otlp.read(message().SerializeToString())
    through = pprof.read(pprof.write(ProfileData(
        source.sample_types, source.mappings, source.mapping, source.address, source.frames, load=lambda: source.samples
    )))  # fmt: skip
    out = otlp.write(through, json=json_form)
    got = proto.ProfilesData()
    if json_form:
        json_format.Parse(out, got)
    else:
        got.ParseFromString(out)
    assert len(got.resource_profiles[0].scope_profiles[0].profiles) == 2
    again = otlp.read(out)
    assert again.frames == source.frames
    assert [sum(column) for column in again.samples.values] == [12, 3]
    assert again.mappings[1:] == through.mappings


def test_recognizes_gzip_and_the_form_by_the_bytes() -> None:
    binary, text = FORMS["binary"](), FORMS["json"]()
    assert {formats.read(each)[1] for each in (binary, text, gz.deflated(binary))} == {"otlp"}
    assert otlp.read(gz.deflated(binary)).frames == otlp.read(text).frames
    assert formats.read(pprof.write(ProfileData()))[1] == "pprof"


def broken(change: Any) -> Any:
    data = message()
    change(data)
    return data


BROKEN = {
    "line 0: function_index 9 is out of range: function_table has": lambda d: setattr(
        d.dictionary.location_table[2].lines[0], "function_index", 9
    ),
    "location 1: mapping_index -1 is out of range: mapping_table has": lambda d: setattr(
        d.dictionary.location_table[1], "mapping_index", -1
    ),
    "sample 0: stack_index 7 is out of range: stack_table has": lambda d: setattr(
        d.resource_profiles[0].scope_profiles[0].profiles[0].samples[0], "stack_index", 7
    ),
    "stack 1: location_indices 9 is out of range: location_table has": lambda d: d.dictionary.stack_table[
        1
    ].location_indices.append(9),
    "mapping 1: attribute_indices -2 is out of range: attribute_table has": lambda d: d.dictionary.mapping_table[
        1
    ].attribute_indices.append(-2),
    "function 1: string index 99 is out of range: string_table has": lambda d: setattr(
        d.dictionary.function_table[1], "name_strindex", 99
    ),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_rejects_indices_out_of_range_in_both_forms(problem: str) -> None:
    data = broken(BROKEN[problem])
    for form in (data.SerializeToString(), as_json(data)):
        with pytest.raises(ProfileError, match=problem):
            otlp.read(form)


def test_rejects_json_that_is_not_a_profile() -> None:
    for text in (b"{", b"{}", b'{"dictionary": []}', b'{"dictionary": {"locationTable": [1]}}', b"{" * 100000):
        with pytest.raises(ProfileError):
            otlp.read(text)


def test_truncated_binary_profiles_raise_profile_error_or_are_read() -> None:
    data = message().SerializeToString()
    for size in range(len(data)):
        profile = survives(otlp.read, data[:size], refused=ProfileError)
        if profile is not None:
            survives(len, profile.samples, refused=())


@pytest.mark.parametrize("json_form", [False, True])
def test_the_process_of_a_resource_is_a_label_of_its_samples(json_form: bool) -> None:
    data = message()
    attributes = data.resource_profiles[0].resource.attributes
    attributes.add(key="process.pid").value.int_value = 4242
    form = as_json(data) if json_form else data.SerializeToString()
    samples = otlp.read(form).samples
    assert samples.labels[0] == (
        Label("thread.name", "main"),
        Label("thread.id", number=42),
        Label("process.pid", number=4242),
    )
    assert samples.labels[1] == (Label("process.pid", number=4242),)
    data.dictionary.string_table.append("process.pid")
    data.dictionary.attribute_table[3].key_strindex = len(data.dictionary.string_table) - 1
    form = as_json(data) if json_form else data.SerializeToString()
    assert otlp.read(form).samples.labels[0] == (Label("thread.name", "main"), Label("process.pid", number=42))


@pytest.mark.parametrize("json_form", [False, True])
def test_samples_share_stacks(json_form: bool) -> None:
    """A stack of a thousand locations in ten thousand samples: ten million places in eleven thousand numbers."""
    data = message()
    data.dictionary.stack_table[1].location_indices.extend([1, 2] * 500)
    cpu = data.resource_profiles[0].scope_profiles[0].profiles[0]
    for value in range(10_000):
        cpu.samples.add(stack_index=1, values=[value])
    samples = otlp.read(as_json(data) if json_form else data.SerializeToString()).samples
    assert len(samples) == 10_002  # the sample of the other type is joined with the first sample of its stack
    assert len(samples.stack) == 1004
    assert len(samples.locations(5000)) == 1002


def test_copies_json_text_except_for_changes() -> None:
    text = """ {"resourceProfiles" : [ ], "new" : [1, {"a": 2.50}],
  "dictionary": {"stringTable": [ "" ], "locationTable": [{}, {"address": "4096", "odd": 1.0e2}], "other": 7 } }\n"""
    profile = otlp.read(text.encode())
    profile.name(0, (Frame("leaf", "", 3),))
    out = otlp.write(profile).decode()
    assert out.startswith(' {"resourceProfiles" : [ ], "new" : [1, {"a": 2.50}],\n')
    assert out.endswith(', "other": 7 } }\n')
    assert '"odd":100.0' in out
    assert otlp.read(out.encode()).frames == [(Frame("leaf", "", 3),)]
    profile = otlp.read(out.encode())
    profile.name(0, (Frame("other"),))
    assert otlp.read(otlp.write(profile)).frames == [(Frame("other"),)]


@pytest.mark.parametrize(
    "text",
    [
        '{"dictionary": {}} x', '{"dictionary": {}', '{"dictionary": {"stackTable": [{"locationIndices": 5}]}}',
        '{"dictionary": {"stackTable": [[]]}}', '{"dictionary": {"locationTable": [{"address": 1.5}]}}',
        '{"dictionary": {"locationTable": [{"address": true}]}}', '{"dictionary": {"stringTable": [5]}}',
        '{"dictionary": {"locationTable": [{"address": 99999999999999999999999}]}}',
        '{"dictionary" {}}', "{dictionary: {}}",
        '{"resourceProfiles": [{"scopeProfiles": [{"profiles": [{"samples": [{"values": ["x"]}]}]}]}]}',
    ],
)  # fmt: skip
def test_malformed_json_raises_profile_error(text: str) -> None:
    with pytest.raises(ProfileError):
        otlp.read(text.encode())


def test_half_of_a_surrogate_pair_becomes_a_replacement_character() -> None:
    """JSON can write what UTF-8 can't: "\\ud800"."""
    document = json.loads(as_json(message()))
    document["dictionary"]["stringTable"][3] = "/bin/app\ud800"
    document["dictionary"]["stringTable"][8] = "outer\udfff"
    document["dictionary"]["attributeTable"][2]["value"]["stringValue"] = "main\ud834"
    profile = otlp.read(json.dumps(document).encode())
    assert profile.mappings[1].path == "/bin/app\ufffd"
    assert profile.frames[1][1].function == "outer\ufffd"
    assert profile.samples.labels[0][0].text == "main\ufffd"
    profile.name(0, (Frame("named", "a.c", 1),))
    for format in written.WRITTEN:
        for json_form in (False, True):
            assert formats.to_bytes(profile, format, json=json_form)
    assert page(profile)
    assert otlp.read(otlp.write(profile)).frames[0][0].function == "named"


@pytest.mark.parametrize("form", FORMS)
def test_folded_stacks_of_two_types_have_the_weight_of_the_chosen_one(form: str) -> None:
    profile = otlp.read(FORMS[form]())
    lines = [folded.write(profile, kind).splitlines() for kind in (0, 1)]
    assert [[int(line.rpartition(" ")[2]) for line in each] for each in lines] == [[-3, 15], [3]]
    assert profile.default_type == 0  # more samples are of it
    assert folded.write(profile) == folded.write(profile, 0)
    by_hand = ProfileData([SampleType("cpu", "nanoseconds"), SampleType("samples", "count")])
    for index in range(20):
        by_hand.samples.add([by_hand.location(NO_MAPPING, index + 1)], [1000 * (index + 1), index + 1])
    both = otlp.read(otlp.write(by_hand, json=form == "json"))
    for kind, times in ((0, 1000), (1, 1)):
        assert sorted(folded.write(both, kind).splitlines()) == sorted(
            f"{index:#x} {times * index}" for index in range(1, 21)
        )


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_one_stack_and_several_types_are_one_sample(form: str) -> None:
    profile = ProfileData(
        [SampleType("samples", "count"), SampleType("cpu", "nanoseconds"), SampleType("space", "bytes")]
    )
    places = [profile.location(NO_MAPPING, index + 1) for index in range(2)]
    rows = [
        ([places[0]], [1, 20, 0], (Label("thread.name", "a"),)),
        ([places[0]], [3, 40, 5], (Label("thread.name", "b"),)),
        (places, [0, 60, 7], ()),
        (places, [0, 80, 9], ()),  # equal rows of one type stay apart
    ]
    for stack, values, labels in rows:
        profile.samples.add(stack, values, labels)
    again = pprof.read(pprof.write(otlp.read(otlp.write(profile, json=form == "json")))).samples
    result = [
        (list(again.locations(index)), [column[index] for column in again.values], again.labels[index])
        for index in range(len(again))
    ]
    assert sorted(result) == sorted(rows)
