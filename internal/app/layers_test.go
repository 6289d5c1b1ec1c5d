package app

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layer lists which packages the packages at and below path may import. A package belongs to the first layer that contains it.
type layer struct {
	path      string
	mayImport []string // the packages of this module that they may import
	exclusive []string // the packages that only they, other layers that list them, gen, cmd and internal/app may import
}

// layers are all layers. A layer must come before a layer that contains it.
var layers = []layer{
	{"fleet/internal/fleet", nil, nil},
	{"fleet/internal/notify", nil, nil},
	{"fleet/internal/queue", []string{"fleet/internal/fleet"}, nil},
	{"fleet/internal/cron", nil, []string{"github.com/adhocore/gronx"}},
	{"fleet/internal/loopback", nil, nil},
	{"fleet/internal/schema", []string{"fleet/internal/fleet"}, []string{"github.com/santhosh-tekuri/jsonschema", "github.com/dlclark/regexp2"}},
	{"fleet/internal/forge", []string{"fleet/internal/fleet"}, nil},
	{"fleet/internal/price", []string{"fleet/internal/fleet"}, nil},
	{"fleet/internal/scratch", nil, nil},
	{"fleet/internal/userdir", nil, []string{"github.com/adrg/xdg"}},
	{"fleet/internal/state", []string{"fleet/internal/fleet", "fleet/internal/notify"}, nil},
	{"fleet/internal/service/servicetest", []string{"fleet/internal/fleet", "fleet/internal/place/fake", "fleet/internal/reconcile", "fleet/internal/service", "fleet/internal/state", "fleet/internal/store/sqlite", "fleet/internal/waittest"}, nil},
	{"fleet/internal/service", []string{"fleet/internal/fleet", "fleet/internal/queue", "fleet/internal/state"}, nil},
	{"fleet/internal/identity/oidc/oidctest", []string{"fleet/internal/loopback"}, []string{"github.com/zitadel/oidc"}},
	{"fleet/internal/identity/oidc", []string{"fleet/internal/fleet", "fleet/internal/identity", "fleet/internal/loopback"}, nil},
	{"fleet/internal/identity/coder/codertest", []string{"fleet/internal/notify"}, []string{"github.com/coder/coder"}},
	{"fleet/internal/identity/coder", []string{"fleet/internal/fleet", "fleet/internal/identity"}, []string{"github.com/coder/coder"}},
	{"fleet/internal/identity", []string{"fleet/internal/fleet"}, nil},
	{"fleet/internal/reconcile", []string{"fleet/internal/fleet", "fleet/internal/state"}, nil},
	{"fleet/internal/telemetry", []string{"fleet/internal/fleet"}, []string{"github.com/prometheus/client_golang", "go.opentelemetry.io"}},
	{"fleet/internal/toolset/conversation", []string{"fleet/internal/fleet"}, nil},
	{"fleet/internal/toolset", []string{"fleet/internal/fleet", "fleet/internal/service", "fleet/internal/toolset/conversation", "fleet/internal/schema"}, nil},
	{"fleet/internal/place/fake", []string{"fleet/internal/fleet"}, nil},
	{"fleet/internal/place/placetest", []string{"fleet/internal/fleet", "fleet/internal/place/placetest", "fleet/internal/waittest"}, nil},
	{"fleet/internal/place/agentfile", nil, nil},
	{"fleet/internal/place/local", []string{"fleet/internal/scratch", "fleet/internal/fleet", "fleet/internal/place/local", "fleet/internal/place/agentfile", "fleet/internal/runner"}, nil},
	{"fleet/internal/runner/remote", []string{"fleet/internal/fleet", "fleet/gen/fleet/runner"}, []string{"connectrpc.com/connect"}},
	{"fleet/internal/runner/agentapi", []string{"fleet/internal/fleet"}, nil},
	{"fleet/internal/runner", []string{"fleet/internal/scratch", "fleet/internal/fleet", "fleet/internal/runner", "fleet/internal/place/agentfile", "fleet/internal/price"}, nil},
	{"fleet/internal/place/coder", []string{"fleet/internal/fleet", "fleet/internal/place/coder", "fleet/internal/runner/remote", "fleet/internal/runner/agentapi"}, []string{"github.com/coder/coder"}},
	{"fleet/internal/model/dial", nil, nil},
	{"fleet/internal/webhook", []string{"fleet/internal/fleet", "fleet/internal/model/dial"}, []string{"github.com/standard-webhooks/standard-webhooks"}},
	{"fleet/internal/model/definition", []string{"fleet/internal/fleet", "fleet/internal/loopback", "fleet/internal/model/dial", "fleet/internal/runner/driver", "fleet/internal/scratch"}, []string{"github.com/docker/cagent"}},
	{"fleet/internal/model/tool", []string{"fleet/internal/fleet", "fleet/internal/model/dial", "fleet/internal/place/agentfile", "fleet/internal/runner", "fleet/internal/schema", "fleet/internal/scratch"}, []string{"github.com/docker/cagent"}},
	{"fleet/internal/model/run", []string{"fleet/internal/fleet", "fleet/internal/model", "fleet/internal/place/agentfile", "fleet/internal/price", "fleet/internal/runner"}, []string{"github.com/docker/cagent"}},
	{"fleet/internal/place/peer", []string{"fleet/internal/fleet", "fleet/internal/state", "fleet/internal/runner/remote", "fleet/internal/place/fake"}, nil},
	{"fleet/internal/place/probe", []string{"fleet/internal/runner/process"}, nil},
	{"fleet/internal/store/sqlite", []string{"fleet/internal/scratch", "fleet/internal/fleet", "fleet/internal/notify", "fleet/internal/store/sqlite", "fleet/internal/store/packed", "fleet/internal/store/record", "fleet/internal/store/turn"}, []string{"modernc.org/sqlite"}},
	{"fleet/internal/store/postgres", []string{"fleet/internal/fleet", "fleet/internal/notify", "fleet/internal/store/postgres", "fleet/internal/store/packed", "fleet/internal/store/record", "fleet/internal/store/turn"}, []string{"github.com/jackc/pgx"}},
	{"fleet/internal/store/packed", nil, nil},
	{"fleet/internal/store/record", []string{"fleet/internal/fleet", "fleet/internal/store/packed"}, nil},
	{"fleet/internal/store/turn", []string{"fleet/internal/fleet"}, nil},
	{"fleet/internal/store/storetest", []string{"fleet/internal/fleet", "fleet/internal/waittest"}, nil},
	{"fleet/internal/waittest", nil, nil},
	{"fleet/internal/unprivileged", nil, nil},
	{"fleet/internal/face/wire", []string{"fleet/internal/face/wire", "fleet/gen"}, nil},
	{"fleet/internal/face/inbound", []string{"fleet/internal/face/wire", "fleet/internal/loopback"}, nil},
	{"fleet/internal/face/encoded", []string{"fleet/internal/face/wire"}, nil},
	{"fleet/internal/admission", []string{"fleet/internal/fleet", "fleet/gen"}, nil},
	{"fleet/internal/face/rpc", []string{"fleet/internal/admission", "fleet/internal/fleet", "fleet/internal/service", "fleet/internal/toolset", "fleet/internal/face/encoded", "fleet/gen"}, nil},
	{"fleet/internal/face/asset", nil, nil},
	{"fleet/internal/face/facetest", []string{"fleet/gen"}, nil},
	{"fleet/internal/face/protected", []string{"fleet/internal/face/wire"}, nil},
	{"fleet/internal/face/page", []string{"fleet/internal/face/asset", "fleet/internal/face/wire"}, nil},
	{"fleet/internal/face/rest", []string{"fleet/internal/face/asset", "fleet/internal/face/rest", "fleet/internal/face/encoded", "fleet/internal/face/wire", "fleet/gen"}, nil},
	{"fleet/internal/face/mcp", []string{"fleet/internal/face/mcp", "fleet/internal/face/encoded", "fleet/internal/face/wire", "fleet/gen"}, []string{"github.com/mark3labs/mcp-go"}},
	{"fleet/internal/face/cli", []string{"fleet/internal/scratch", "fleet/internal/face/cli", "fleet/internal/loopback", "fleet/internal/userdir", "fleet/internal/face/wire", "fleet/gen"}, []string{"github.com/spf13/cobra"}},
	{"fleet/gen", []string{"fleet/gen", "fleet/internal/face/mcp/tool"}, nil},
	{"fleet/internal/app", []string{"fleet"}, nil},
	{"fleet/cmd", []string{"fleet"}, nil},
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

// TestLayers fails if a package has an import that its layer does not allow, or if the core depends on a package outside the standard library.
// docs/architecture.md shows the layers.
func TestLayers(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "fleet/...") {
		i := slices.IndexFunc(layers, func(l layer) bool { return isWithin(p.ImportPath, l.path) })
		require.GreaterOrEqual(t, i, 0, "%s is not in a layer: add it to the list", p.ImportPath)
		for _, imp := range p.Imports {
			if isWithin(imp, "fleet") {
				require.True(t, slices.ContainsFunc(layers[i].mayImport, func(m string) bool { return isWithin(imp, m) }), "%s may not import %s", p.ImportPath, imp)
			}
			for _, l := range layers {
				for _, a := range l.exclusive {
					unrestricted := isWithin(p.ImportPath, "fleet/gen") || isWithin(p.ImportPath, "fleet/internal/app") || isWithin(p.ImportPath, "fleet/cmd")
					require.False(t, isWithin(imp, a) && !slices.Contains(layers[i].exclusive, a) && !unrestricted, "%s imports %s, which belongs to %s", p.ImportPath, imp, l.path)
				}
			}
		}
	}
	core := []string{"fleet/internal/fleet", "fleet/internal/notify", "fleet/internal/queue", "fleet/internal/state", "fleet/internal/service", "fleet/internal/reconcile"}
	for _, p := range goList(t, append([]string{"-deps"}, core...)...) {
		require.True(t, p.Standard || slices.Contains(core, p.ImportPath), "the core depends on %s", p.ImportPath)
	}
	for _, p := range goList(t, "-deps", "fleet/gen/...") {
		require.NotEqual(t, "github.com/mark3labs/mcp-go/server", p.ImportPath, "generated code needs no server")
	}
}

// TestSandboxHelperStartsEarly fails if the sandbox helper needs a package that is initialised after most packages of the program.
func TestSandboxHelperStartsEarly(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "-deps", "fleet/internal/runner/sandbox") {
		require.NotContains(t, []string{"net", "net/netip", "net/http", "net/url"}, p.ImportPath, "see docs/decisions/022")
	}
}

// TestProgramHasNoTestParts fails if the program imports a package that only tests need.
func TestProgramHasNoTestParts(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "-deps", "fleet/cmd/fleet") {
		require.False(t, isWithin(p.ImportPath, "github.com/zitadel/oidc/v3") || strings.HasSuffix(p.ImportPath, "test") && isWithin(p.ImportPath, "fleet"), p.ImportPath)
	}
}

// isWithin reports whether path is dir or below it.
func isWithin(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// goList returns the packages that `go list` prints.
func goList(t *testing.T, args ...string) (packages []goPackage) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Imports,Standard"}, args...)...).Output()
	require.NoError(t, err)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			require.NotEmpty(t, packages)
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}
