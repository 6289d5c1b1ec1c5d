package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/stretchr/testify/require"
	_ "google.golang.org/genproto/googleapis/api/httpbody" // imported by a service
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	"fleet/cmd/internal/option"
)

// runPlugin compiles the proto file at the path name and runs the plugin for it. The file is in sources, which maps paths to
// contents, or among Fleet's protos. It may import Fleet's protos, and those of the Go packages that the test is linked with.
func runPlugin(t *testing.T, name string, sources map[string]string) (*pluginpb.CodeGeneratorResponse, error) {
	t.Helper()
	compiler := protocompile.Compiler{
		SourceInfoMode: protocompile.SourceInfoStandard,
		Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{
			&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(sources)},
			&protocompile.SourceResolver{ImportPaths: []string{"../../proto"}},
			protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
				d, err := protoregistry.GlobalFiles.FindFileByPath(path)
				return protocompile.SearchResult{Desc: d}, err
			}),
		}),
	}
	files, err := compiler.Compile(context.Background(), name)
	require.NoError(t, err)
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{name}, Parameter: proto.String("paths=source_relative")}
	addFile(request, map[string]bool{}, files.FindFileByPath(name))
	// With protoc, the plugin gets the options as bytes and parses them itself. Marshal the request to do the same here.
	raw, err := proto.Marshal(request)
	require.NoError(t, err)
	request = &pluginpb.CodeGeneratorRequest{}
	require.NoError(t, proto.Unmarshal(raw, request))
	p, err := protogen.Options{}.New(request)
	require.NoError(t, err)
	if err := generate(p); err != nil {
		return nil, err
	}
	response := p.Response()
	require.Nil(t, response.Error)
	return response, nil
}

// addFile adds a file to the request, after its imports. It skips files that it has added before.
func addFile(request *pluginpb.CodeGeneratorRequest, added map[string]bool, f protoreflect.FileDescriptor) {
	if added[f.Path()] {
		return
	}
	added[f.Path()] = true
	for i := range f.Imports().Len() {
		addFile(request, added, f.Imports().Get(i).FileDescriptor)
	}
	var d *descriptorpb.FileDescriptorProto
	if result, ok := f.(linker.Result); ok {
		d = result.FileDescriptorProto()
	} else {
		d = protoutil.ProtoFromFileDescriptor(f)
	}
	request.ProtoFile = append(request.ProtoFile, d)
}

// TestGeneratedCodeIsCurrent checks that the plugin generates the committed tools of FleetService. `make generated` checks those of the
// other services.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	t.Parallel()
	const name = "fleet/v1/fleet_service.proto"
	response, err := runPlugin(t, name, nil)
	require.NoError(t, err)
	require.Len(t, response.File, 1)
	want, err := os.ReadFile(filepath.Join("..", "..", "gen", response.File[0].GetName()))
	require.NoError(t, err)
	require.Equal(t, string(want), response.File[0].GetContent(), "the committed code is stale: run make generate")
}

func TestServiceWithoutToolset(t *testing.T) {
	t.Parallel()
	response, err := runPlugin(t, "fleet/v1/token_service.proto", nil)
	require.NoError(t, err)
	require.Empty(t, response.File)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, method, field, want string }{
		{"stream of requests", `// D.
			rpc M(stream Q) returns (Q);`, "", "x.S: M: a method that streams requests cannot be a tool"},
		{"no comment", "\n rpc M(Q) returns (Q);", "", "x.S: M: a method that is a tool needs a comment"},
		{"long name", "// D.\n rpc M" + strings.Repeat("x", 64) + "(Q) returns (Q);", "", "cannot be the name of a tool"},
		{"progress without a stream", `// D.
			rpc M(Q) returns (Q) { option (fleet.v1.progress_agent_field) = "name"; }`, "string name = 1;", "needs a streaming method in this package with fleet.v1.event_stream"},
		{
			"progress of an unknown field", `// D.
			rpc M(Q) returns (Q) { option (fleet.v1.progress_agent_field) = "nam"; }
			// W.
			rpc Watch(W) returns (stream W) { option (fleet.v1.event_stream) = {cursor: "cursor" agent: "agent_name" follow: "follow"}; }`,
			"string name = 1;", `fleet.v1.progress_agent_field names "nam", but Q has no string field`,
		},
		{
			"event stream with an unknown field", `// D.
			rpc M(Q) returns (Q) { option (fleet.v1.progress_agent_field) = "name"; }
			// W.
			rpc Watch(W) returns (stream W) { option (fleet.v1.event_stream) = {cursor: "at" agent: "agent_name" follow: "follow"}; }`,
			"string name = 1;", "fleet.v1.event_stream of Watch names a field that does not exist",
		},
		{"result without a last message", `// D.
			rpc M(Q) returns (stream Q) { option (fleet.v1.last_is_result) = true; }`, "", "with a value that is marked as last"},
		{"portion with an unknown field", `// D.
			rpc M(Q) returns (Q) {
				option idempotency_level = NO_SIDE_EFFECTS;
				option (fleet.v1.portion) = {limit: "limit" of: "names" next: "next" from: "from"};
			}`, "optional int32 limit = 1; repeated string names = 2;", `next names the field "next", but Q has no such field`},
		{"default of a string", "// D.\n rpc M(Q) returns (Q);", `optional string s = 1 [(fleet.v1.tool_default) = 1];`, "fleet.v1.tool_default is for an optional int32, but s is not one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := runPlugin(t, "x.proto", map[string]string{"x.proto": `syntax = "proto3";
				package x;
				import "fleet/v1/options.proto";
				option go_package = "example.com/x";
				service S {
					option (fleet.v1.toolset) = "x";
					` + c.method + `
				}
				message Q { ` + c.field + ` }
				message W { string cursor = 1; string agent_name = 2; bool follow = 3; }`})
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		"ShowAgentTaskHistory": {"show_agent_task_history", "Show agent task history"},
		"GetHTTPLog":           {"get_http_log", "Get http log"},
		"Ping":                 {"ping", "Ping"},
	} {
		require.Equal(t, want[0], option.ToolName(name))
		require.Equal(t, want[1], title(name))
	}
}
