package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// thingsProto declares a service whose requests have a field of every type that has a notation on the command line.
const thingsProto = `syntax = "proto3";
package fleet.things;
import "buf/validate/validate.proto";
import "fleet/v1/options.proto";
import "google/api/field_behavior.proto";
import "google/protobuf/struct.proto";
service ThingService {
  option (fleet.v1.toolset) = "things";
  rpc MakeThing(MakeThingRequest) returns (Thing) { option (fleet.v1.command).name = "make"; }
  rpc MakeThingAgain(MakeThingRequest) returns (Thing) {}
  rpc GetThing(GetThingRequest) returns (Thing) { option (fleet.v1.command).name = "get"; }
  rpc FeedThing(stream Thing) returns (Thing) {}
}
enum Color { color_unspecified = 0; red = 1; green = 2; }
message GetThingRequest { string thing_id = 1 [(google.api.field_behavior) = REQUIRED]; string help = 2; string server = 3; }
message MakeThingRequest {
  string owner = 1 [(google.api.field_behavior) = REQUIRED];
  string text = 2 [(fleet.v1.shown).role = document, (buf.validate.field).string.max_bytes = 20];
  string note = 3 [(buf.validate.field).string.max_len = 10];
  bool loud = 4;
  int32 count = 5;
  optional int32 maybe = 6;
  Color color = 7;
  repeated string tags = 8;
  google.protobuf.Struct extra = 9;
  repeated string rest = 10 [(google.api.field_behavior) = REQUIRED];
  string made_by = 11 [(google.api.field_behavior) = OUTPUT_ONLY];
}
message Thing { string name = 1 [(fleet.v1.shown).role = name]; }
`

// newThingsToolset returns the toolset of a service that is not compiled into this program.
func newThingsToolset(t *testing.T) *toolset {
	t.Helper()
	globalResolver := protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
		d, err := protoregistry.GlobalFiles.FindFileByPath(path)
		return protocompile.SearchResult{Desc: d}, err
	})
	source := &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"things.proto": thingsProto})}
	files, err := (&protocompile.Compiler{Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{source, globalResolver})}).Compile(t.Context(), "things.proto")
	require.NoError(t, err)
	data, err := proto.Marshal(protoutil.ProtoFromFileDescriptor(files.FindFileByPath("things.proto")))
	require.NoError(t, err)
	var file descriptorpb.FileDescriptorProto // the options are decoded with the extensions of this program
	require.NoError(t, proto.Unmarshal(data, &file))
	d, err := protodesc.NewFile(&file, protoregistry.GlobalFiles)
	require.NoError(t, err)
	var all protoregistry.Files
	require.NoError(t, all.RegisterFile(d))
	return deriveToolset(d.Services().Get(0), dynamicpb.NewTypes(&all), openAPIDocument{})
}

// thingServer serves things: it accepts every request and answers with a thing.
type thingServer struct {
	grpc.ClientConnInterface
	toolset  *toolset
	requests []proto.Message
}

func (s *thingServer) Invoke(_ context.Context, _ string, args, reply any, _ ...grpc.CallOption) error {
	answer := reply.(proto.Message).ProtoReflect()
	answer.Set(answer.Descriptor().Fields().ByName("name"), protoreflect.ValueOfString("it"))
	s.requests = append(s.requests, args.(proto.Message))
	return nil
}

// run runs a command of the toolset. It returns the request as JSON and what the command prints, or the command's failure.
func (s *thingServer) run(t *testing.T, stdin string, args ...string) (request, stdout string, f *failure) {
	t.Helper()
	c := newCommand("")
	p := newProgram(Deps{
		Stdin: strings.NewReader(stdin), Stdout: c.stdout, Stderr: c.stderr, Getenv: func(key string) string { return c.env[key] },
		Dial: func(context.Context, Target) (grpc.ClientConnInterface, func() error, error) {
			return s, func() error { return nil }, nil
		},
	})
	p.root.AddCommand(p.newToolset(s.toolset))
	p.root.SetArgs(append([]string{"things"}, args...))
	s.requests = nil
	if err := p.root.ExecuteContext(t.Context()); err != nil {
		return "", c.stdout.String(), p.explain(context.Background(), err, Target{})
	}
	require.Len(t, s.requests, 1)
	data, err := wire.Marshal(s.requests[0])
	require.NoError(t, err)
	return string(data), c.stdout.String(), nil
}

func TestFlagsOfEveryType(t *testing.T) {
	t.Parallel()
	s := &thingServer{toolset: newThingsToolset(t)}
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return "@" + path
	}
	text, object := file("text.md", "from a\nfile\n"), file("extra.json", `{"a": {"b": 1}}`)
	for _, c := range []struct {
		flag, stdin, key, want string
	}{
		{"--text=plain", "", "text", `"plain"`},
		{"--text=" + text, "", "text", `"from a\nfile\n"`},
		{"--text=-", "from a pipe", "text", `"from a pipe"`},
		{`--text=\@all`, "", "text", `"@all"`},
		{`--text=\-`, "", "text", `"-"`},
		{`--text=\\@all`, "", "text", `"\\@all"`},
		{`--text=\d`, "", "text", `"\\d"`},
		{"--text=--", "", "text", `"--"`},
		{"--note=@all", "", "note", `"@all"`},
		{"--note=-", "", "note", `"-"`},
		{"--loud", "", "loud", `true`},
		{"--loud=false", "", "loud", `false`},
		{"--count=-7", "", "count", `-7`},
		{"--count=+007", "", "count", `7`},
		{"--color=green", "", "color", `"green"`},
		{"--tags=a, b", "", "tags", `["a","b"]`},
		{`--tags="a,b",c`, "", "tags", `["a,b","c"]`},
		{"--tags=a,b\nc\n\nd\n", "", "tags", `["a","b","c","d"]`}, // what a command with -q prints
		{"--tags=", "", "tags", `[]`},
		{"--text=-", "\n", "text", `"\n"`},
		{"--extra=a=0.5", "", "extra", `{"a":0.5}`},
		{"--extra=a=true", "", "extra", `{"a":true}`},
		{"--extra=a=two words", "", "extra", `{"a":"two words"}`},
		{`--extra=a="1"`, "", "extra", `{"a":"1"}`},
		{"--extra=a=01", "", "extra", `{"a":"01"}`},
		{`--extra=a=\@all`, "", "extra", `{"a":"@all"}`},
		{"--extra=" + object, "", "extra", `{"a":{"b":1}}`},
		{"--extra=-", `{"a": []}`, "extra", `{"a":[]}`},
		{"--extra=a=" + text, "", "extra", `{"a":"from a\nfile\n"}`},
		{"--maybe=0", "", "maybe", `0`},
	} {
		request, _, f := s.run(t, c.stdin, "make-thing", "me", "rest", c.flag)
		require.Nil(t, f, "%s: %v", c.flag, f)
		require.Contains(t, request, `"`+c.key+`":`+c.want, c.flag)
	}
}

func TestFlagsAddUp(t *testing.T) {
	t.Parallel()
	s := &thingServer{toolset: newThingsToolset(t)}
	request, _, f := s.run(t, "", "make-thing", "me", "r1", "r2,r3", "--tags", "a", "--tags", "b,c", "--extra", "a=1", "--extra", `{"b": 2}`, "--count", "1", "--count", "2")
	require.Nil(t, f)
	for _, want := range []string{`"owner":"me"`, `"rest":["r1","r2","r3"]`, `"tags":["a","b","c"]`, `"extra":{"a":1,"b":2}`, `"count":2`} {
		require.Contains(t, request, want)
	}
	request, _, f = s.run(t, "", "make-thing", "r1", "--owner", "me", "r2")
	require.Nil(t, f)
	require.Contains(t, request, `"owner":"me"`)
	require.Contains(t, request, `"rest":["r1","r2"]`)
	request, _, f = s.run(t, "", "make-thing", "--rest", "r1", "me")
	require.Nil(t, f)
	require.Contains(t, request, `"rest":["r1"]`)
}

func TestInvalidFlagValues(t *testing.T) {
	t.Parallel()
	s := &thingServer{toolset: newThingsToolset(t)}
	for flag, want := range map[string]string{
		"--count=x": "give a whole number", "--count=1.5": "give a whole number", "--count=3000000000": "give a whole number",
		"--maybe=x": "give a whole number", "--color=blue": "give red or green", "--color=color_unspecified": "give red or green",
		"--loud=x": "give true or false", `--tags="a`: "separate values with commas",
		"--extra=x": "neither a JSON object nor KEY=VALUE", "--extra={": "neither a JSON object nor KEY=VALUE", "--extra=null": "neither a JSON object",
		"--text=@/nowhere/at/all": "cannot read the text", "--made-by=me": "unknown flag --made-by",
	} {
		_, out, f := s.run(t, "", "make-thing", "me", "rest", flag)
		require.NotNil(t, f, flag)
		require.Equal(t, ExitUsage, f.code, flag)
		require.Contains(t, f.message, want, flag)
		require.Empty(t, out, flag)
	}
	_, _, f := s.run(t, "longer than 20 bytes, so it is refused", "make-thing", "me", "rest", "--text=-")
	require.NotNil(t, f)
	require.Contains(t, f.message, "longer than 20 bytes")
	_, _, f = s.run(t, "x", "make-thing", "me", "rest", "--text=-", "--extra=-")
	require.NotNil(t, f)
	require.Contains(t, f.message, "standard input cannot be both")
	_, _, f = s.run(t, "\xff", "make-thing", "me", "rest", "--text=-")
	require.NotNil(t, f)
	require.Contains(t, f.message, "not text in UTF-8")
	_, _, f = s.run(t, "", "make-thing", "me", "rest", "--text=-")
	require.NotNil(t, f)
	require.Contains(t, f.message, "is empty")
}

// TestTypesWithoutANotation checks that notationOf panics for a type without a notation on the command line.
func TestTypesWithoutANotation(t *testing.T) {
	t.Parallel()
	for _, f := range []protoreflect.FieldDescriptor{
		fleetv1.File_fleet_v1_event_proto.Messages().Get(0).Fields().ByName("time"),
		fleetv1.File_fleet_v1_agent_proto.Messages().Get(0).Fields().ByName("metadata"),
	} {
		require.Panics(t, func() { notationOf(f) })
	}
}

// TestNewServiceHasCommands checks that the commands of a service can be derived from its descriptors alone. A field that has the name of
// a global flag gets another flag.
func TestNewServiceHasCommands(t *testing.T) {
	t.Parallel()
	s := &thingServer{toolset: newThingsToolset(t)}
	var names []string
	for _, m := range s.toolset.methods {
		names = append(names, m.command)
	}
	require.Equal(t, []string{"make", "make-thing-again", "get"}, names)
	request, out, f := s.run(t, "", "get", "x", "--get-help", "h", "--get-server", "s")
	require.Nil(t, f)
	require.JSONEq(t, `{"thing_id": "x", "help": "h", "server": "s"}`, request)
	require.Equal(t, "Name          it\n", out)
	_, out, f = s.run(t, "", "get", "x", "-q")
	require.Nil(t, f)
	require.Equal(t, "it\n", out)
	_, out, f = s.run(t, "", "get", "x", "-o", "yaml")
	require.Nil(t, f)
	require.Equal(t, "name: it\n", out)
}
