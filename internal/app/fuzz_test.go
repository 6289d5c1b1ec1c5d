package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzConfig checks that Load returns a valid configuration or an error for any fleet.yaml.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("auth: [tokens]\nhttp: 0.0.0.0:1\nlocal: {projects: [{name: a, driver: shell, network: {allow: [a:1]}}]}\n"))
	f.Add([]byte("create_wait: 1e9999\nplaces: [coder, coder]\nlimits: {agents: -1}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, ConfigFile)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		c, err := Load(path, nil, nil)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.NoError(t, c.Validate())
		require.NotEmpty(t, c.Places)
	})
}
