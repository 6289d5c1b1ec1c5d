package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// installedFiles are files as common tools install them in a home directory, by path. A value "-> PATH" is a link. U stands
// for the home directory. Each program prints its name after it has used the rest of its installation.
var installedFiles = map[string]string{
	// pyenv: scripts that start other programs by their absolute paths
	".pyenv/shims/python3":                      "#!/bin/sh\nexec U/.pyenv/libexec/pyenv exec python3",
	".pyenv/libexec/pyenv":                      "#!/bin/sh\nexec \"$PYENV_ROOT/versions/$(cat \"$PYENV_ROOT/version\")/bin/$2\"",
	".pyenv/version":                            "3.12",
	".pyenv/versions/3.12/bin/python3":          "#!/bin/sh\ncat U/.pyenv/versions/3.12/lib/python3.12/os.py",
	".pyenv/versions/3.12/lib/python3.12/os.py": "python3",
	// nvm: a link to an npm package, and a link to the current version
	".nvm/versions/node/v22/bin/npm":                             "-> ../lib/node_modules/npm/bin/npm-cli.js",
	".nvm/versions/node/v22/lib/node_modules/npm/bin/npm-cli.js": "#!/bin/sh\ncat U/.nvm/versions/node/v22/lib/node_modules/npm/package.json",
	".nvm/versions/node/v22/lib/node_modules/npm/package.json":   "npm",
	".nvm/current": "-> versions/node/v22",
	// asdf and mise: their data is found through HOME, or a variable
	".asdf/shims/ruby":                           "#!/bin/sh\nexec asdf exec ruby",
	".asdf/bin/asdf":                             "#!/bin/sh\nexec \"${ASDF_DATA_DIR:-$HOME/.asdf}/installs/ruby/3.3/bin/$2\"",
	".asdf/installs/ruby/3.3/bin/ruby":           "#!/bin/sh\necho ruby",
	".local/share/mise/shims/deno":               "-> ../../../bin/mise",
	".local/bin/mise":                            "#!/bin/sh\nexec \"${MISE_DATA_DIR:-$HOME/.local/share/mise}/installs/deno/2/bin/deno\"",
	".local/share/mise/installs/deno/2/bin/deno": "#!/bin/sh\necho deno",
	// rustup: links to one program
	".cargo/bin/rustup":                     "#!/bin/sh\nexec \"${RUSTUP_HOME:-$HOME/.rustup}/toolchains/stable/bin/$(basename \"$0\")\"",
	".cargo/bin/cargo":                      "-> rustup",
	".rustup/toolchains/stable/bin/cargo":   "#!/bin/sh\ncat U/.rustup/toolchains/stable/lib/rustlib",
	".rustup/toolchains/stable/lib/rustlib": "cargo",
	// Go: its sources and tools are next to bin
	"sdk/go1.26/bin/go":           "#!/bin/sh\ncat U/sdk/go1.26/VERSION U/sdk/go1.26/src/fmt/print.go U/sdk/go1.26/pkg/tool/compile",
	"sdk/go1.26/VERSION":          "g",
	"sdk/go1.26/src/fmt/print.go": "o",
	"sdk/go1.26/pkg/tool/compile": "",
	// pipx and uv: a link into an environment, whose interpreter is a link into another installation
	".local/bin/black":                         "-> ../share/pipx/venvs/black/bin/black",
	".local/share/pipx/venvs/black/bin/black":  "#!/bin/sh\ntest \"$(U/.local/share/pipx/venvs/black/bin/python)\" = python3 && cat U/.local/share/pipx/venvs/black/pyvenv.cfg",
	".local/share/pipx/venvs/black/bin/python": "-> U/.pyenv/versions/3.12/bin/python3",
	".local/share/pipx/venvs/black/pyvenv.cfg": "black",
	// secrets next to the programs
	".cargo/credentials.toml":        "secret",
	".cargo/registry/private/src.rs": "secret",
	".local/share/keyrings/login":    "secret",
	".local/state/token":             "secret",
	"src/shop/bin/deploy":            "#!/bin/sh\necho deploy",
	"src/shop/.env":                  "secret",
	"src/shop/config/prod.yaml":      "secret",
	".ssh/id_ed25519":                "secret",
}

// TestInstalledPrograms starts programs that common tools have installed below the home directory of the server's user.
// Programs on PATH must run and must not be writable. Other files next to them must stay hidden.
func TestInstalledPrograms(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	userHome := t.TempDir()
	inUser := strings.NewReplacer("U/", userHome+"/")
	for path, text := range installedFiles {
		path = filepath.Join(userHome, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			require.NoError(t, os.Symlink(inUser.Replace(to), path))
			continue
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(path, []byte(inUser.Replace(text)), mode))
	}
	var path []string
	for _, dir := range []string{
		".pyenv/shims", ".nvm/current/bin", ".asdf/shims", ".asdf/bin", ".local/share/mise/shims", ".local/bin", ".cargo/bin", "sdk/go1.26/bin", "src/shop/bin",
	} {
		path = append(path, filepath.Join(userHome, dir))
	}
	w := newTestPlace(t, func(c *local.Config) {
		c.Environ = []string{"PATH=" + strings.Join(append(path, "/usr/local/bin:/usr/bin:/bin"), ":"), "HOME=" + userHome}
	})
	a := w.provisionIn("shell")
	for _, program := range []string{"python3", "npm", "ruby", "deno", "cargo", "go", "black", "deploy"} {
		_, o := w.runTask(a, program)
		require.Equal(t, fleet.TaskCompleted, o.Status, "%s: %+v", program, o)
		require.Equal(t, program, o.Summary, "%s", o.Payload)
	}
	for file, text := range installedFiles {
		file = filepath.Join(userHome, file)
		if text == "secret" {
			_, o := w.runTask(a, "cat "+file)
			require.Equal(t, fleet.TaskFailed, o.Status, "%s can be read: %s", file, o.Payload)
		}
		_, o := w.runTask(a, "echo attacked >>"+file)
		require.Equal(t, fleet.TaskFailed, o.Status, "%s can be changed", file)
	}
	_, o := w.runTask(a, "touch "+filepath.Join(userHome, ".cargo/bin/planted"))
	require.Equal(t, fleet.TaskFailed, o.Status, "a program can be planted")
}
