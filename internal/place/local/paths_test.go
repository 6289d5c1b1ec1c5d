package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
)

// TestPathsOfTheConfiguration checks that a configuration is refused if it lets agents change files that the server or other agents
// run or read, or lets agents read files that only the server may read.
func TestPathsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	root := t.TempDir()
	inRoot := func(path string) string { return filepath.Join(root, path) }
	for _, dir := range []string{"data", "cargo/bin", "cargo/registry", "cache/deep", "docs", "repository", "elsewhere", "keys", "node/bin"} {
		require.NoError(t, os.MkdirAll(inRoot(dir), 0o700))
	}
	for _, file := range []string{"keys/tls.key", "role.md", "node/bin/agent"} {
		require.NoError(t, os.WriteFile(inRoot(file), nil, 0o700))
	}
	require.NoError(t, os.Symlink(inRoot("cache"), inRoot("linked")))
	require.NoError(t, os.Symlink(inRoot("elsewhere"), inRoot("cache/link"))) // on the way to a directory that agents may read
	path := "PATH=" + inRoot("cargo/bin") + ":/usr/bin:/bin"
	for name, tc := range map[string]struct {
		change func(c *local.Config, proj *local.Project)
		err    []string // parts of the error; nil: the configuration is accepted
	}{
		"a cache": {func(c *local.Config, proj *local.Project) {
			c.Write, proj.Write = []string{inRoot("cargo/registry")}, []string{inRoot("docs")}
		}, nil},
		"the same cache twice": {func(c *local.Config, proj *local.Project) {
			c.Write, proj.Write = []string{inRoot("cache")}, []string{inRoot("linked")}
		}, nil},
		"without a sandbox":  {func(c *local.Config, proj *local.Project) { proj.Sandbox, proj.Write = sandbox.None, []string{"/"} }, nil},
		"contains PATH":      {func(c *local.Config, _ *local.Project) { c.Write = []string{inRoot("cargo")} }, []string{inRoot("cargo"), "local.write", "contains", inRoot("cargo/bin"), "PATH"}},
		"is on PATH":         {func(_ *local.Config, proj *local.Project) { proj.Write = []string{inRoot("cargo/bin")} }, []string{"write of the project p", "PATH"}},
		"everything":         {func(_ *local.Config, proj *local.Project) { proj.Write = []string{"/"} }, []string{"agents may write /"}},
		"a system directory": {func(_ *local.Config, proj *local.Project) { proj.Write = []string{"/usr/share"} }, []string{"agents may write /usr/share"}},
		"PATH of a project": {func(_ *local.Config, proj *local.Project) {
			proj.Env, proj.Write = map[string]string{"PATH": inRoot("cache/deep")}, []string{inRoot("cache")}
		}, []string{"variable of the project p"}},
		"a link on PATH": {func(c *local.Config, proj *local.Project) {
			c.Environ, c.Write = []string{"PATH=" + inRoot("cache/link") + ":/usr/bin"}, []string{inRoot("cache")}
		}, []string{inRoot("cache/link")}},
		"a link to PATH": {func(c *local.Config, _ *local.Project) {
			c.Environ, c.Write = []string{"PATH=" + inRoot("linked/deep") + ":/usr/bin"}, []string{inRoot("cache")}
		}, []string{inRoot("cache/deep")}},
		"a readable path": {func(c *local.Config, proj *local.Project) {
			c.Read, proj.Write = []string{inRoot("cache/deep")}, []string{inRoot("cache")}
		}, []string{"local.read"}},
		"in a readable path": {func(c *local.Config, proj *local.Project) {
			proj.Read, c.Write = []string{inRoot("cache")}, []string{inRoot("cache/deep")}
		}, []string{"read of the project p", "is in"}},
		"another writable path": {func(c *local.Config, proj *local.Project) {
			c.Write, proj.Write = []string{inRoot("cache")}, []string{inRoot("cache/deep")}
		}, []string{inRoot("cache"), inRoot("cache/deep")}},
		"the data":       {func(c *local.Config, _ *local.Project) { c.Write = []string{inRoot("data")} }, []string{"the data of the server"}},
		"above the data": {func(c *local.Config, _ *local.Project) { c.Write = []string{root} }, []string{root}},
		"a key": {func(c *local.Config, _ *local.Project) {
			c.PrivateFiles, c.Write = map[string]string{"tls.key": inRoot("keys/tls.key")}, []string{inRoot("keys")}
		}, []string{"tls.key"}},
		"a readable key": {func(c *local.Config, _ *local.Project) {
			c.PrivateFiles, c.Read = map[string]string{"tls.key": inRoot("keys/tls.key")}, []string{inRoot("keys")}
		}, []string{"tls.key is " + inRoot("keys/tls.key"), "local.read"}},
		"a key with programs": {func(c *local.Config, _ *local.Project) { c.PrivateFiles = map[string]string{"tls.key": "/usr/bin/env"} }, []string{"tls.key is /usr/bin/env", "because they can read /usr"}},
		"readable data":       {func(c *local.Config, proj *local.Project) { proj.Read = []string{root} }, []string{"data is " + inRoot("data"), "read of the project p"}},
		"the repository": {func(_ *local.Config, proj *local.Project) {
			proj.Repository, proj.Write = inRoot("repository"), []string{inRoot("repository")}
		}, []string{"the repository of the project p"}},
		"a prompt": {func(c *local.Config, proj *local.Project) {
			c.Write, proj.Roles = []string{inRoot("docs")}, []local.Role{{Name: "r", PromptFile: inRoot("role.md")}}
			proj.Write = []string{inRoot("role.md")}
		}, []string{"the prompt of the role r"}},
		"the agent's program": {func(_ *local.Config, proj *local.Project) {
			proj.Driver, proj.Command, proj.Write = "claude", []string{inRoot("node/bin/agent")}, []string{inRoot("node")}
		}, []string{"the program, PATH or another variable of the project p"}},
		"a missing path": {func(c *local.Config, _ *local.Project) { c.Write = []string{inRoot("nothing")} }, []string{inRoot("nothing"), "create it"}},
		"PATH in the data": {func(c *local.Config, _ *local.Project) {
			c.Environ = []string{"PATH=" + inRoot("data/agents/a/work/bin")}
		}, []string{"an agent could replace it"}},
		"data on PATH": {func(c *local.Config, _ *local.Project) { c.Environ = []string{"PATH=" + root + ":/usr/bin"} }, nil}, // see runner.ReadablePaths
	} {
		c := local.Config{Dir: inRoot("data"), Program: supervisor(t), Environ: []string{path}}
		proj := local.Project{Name: "p"}
		tc.change(&c, &proj)
		c.Projects = []local.Project{proj}
		p, err := local.New(c)
		if tc.err == nil {
			require.NoError(t, err, name)
			require.NoError(t, p.Close())
			continue
		}
		for _, part := range tc.err {
			require.ErrorContains(t, err, part, name)
		}
	}
}

// TestDirectoryOfCaller checks that a caller cannot make an agent work in a directory that sandboxes depend on.
func TestDirectoryOfCaller(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	inRoot := func(path string) string { return filepath.Join(root, path) }
	for _, dir := range []string{"data", "tools/bin", "src/app", "keys", "docs/deep", "cache/deep", "prompts/x"} {
		require.NoError(t, os.MkdirAll(inRoot(dir), 0o700))
	}
	for _, file := range []string{"keys/tls.key", "prompts/role.md"} {
		require.NoError(t, os.WriteFile(inRoot(file), nil, 0o600))
	}
	runScript(t, inRoot("src/app"), "git init -q")
	p, err := local.New(local.Config{
		Dir: inRoot("data"), Program: supervisor(t), Environ: []string{"PATH=" + inRoot("tools/bin") + ":/usr/bin:/bin"},
		PrivateFiles: map[string]string{"tls.key": inRoot("keys/tls.key")}, Read: []string{inRoot("docs")}, Write: []string{inRoot("cache")},
		Projects: []local.Project{{Name: "p", Repository: inRoot("src/app"), Roles: []local.Role{{Name: "r", PromptFile: inRoot("prompts/role.md")}}}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	for dir, why := range map[string]string{ // why is a part of the error; empty: the directory is accepted
		"": "it contains", "data": "the data of the server", "data/agents": "the data of the server", "tools": "PATH", "tools/bin": "PATH", "keys": "tls.key",
		"prompts": "the prompt of the role r", "src": "the repository of the project p", "src/app": "the repository of the project p", "src/app/.git": "the repository of the project p",
		"docs": "local.read", "cache/deep": "local.write", "prompts/x": "", "docs/deep": "", "src/app/sub": "", "cache": "",
	} {
		require.NoError(t, os.MkdirAll(inRoot(dir), 0o700))
		_, err := p.Provision(t.Context(), configuredAgent(fleet.AgentConfig{Driver: "shell", Dir: inRoot(dir)}))
		if why == "" {
			require.NoError(t, err, dir)
			continue
		}
		require.ErrorContains(t, err, why, dir)
		requireReason(t, err, fleet.ReasonProvisioningFailed)
	}
}

// TestLinkInDirectoryOfCaller checks that an agent gets no access to the target of a link that somebody has put into the path
// of its working directory.
func TestLinkInDirectoryOfCaller(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	w := newTestPlace(t, nil)
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	dir, secret := filepath.Join(root, "project"), filepath.Join(root, "secret")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Mkdir(secret, 0o700))
	a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "shell", Dir: dir}))
	require.NoError(t, os.Rename(dir, dir+".old"))
	require.NoError(t, os.Symlink(secret, dir))
	err = w.Connect(a).Dispatch(w.ctx, newRun("touch written"))
	require.ErrorContains(t, err, "symbolic link")
	require.NoFileExists(t, filepath.Join(secret, "written"))
}
