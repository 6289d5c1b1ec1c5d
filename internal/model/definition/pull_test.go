package definition_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
)

// TestPullWithLogin checks that a registry gets credentials only if the configuration allows it, and that the output of a failed
// credential helper is not shown.
func TestPullWithLogin(t *testing.T) {
	files := newRegistry()
	open := true // allows a push without a login
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if !open && (user != "robot" || password != "s3cret") {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		files.ServeHTTP(w, r)
	}))
	ref := host + "/fleet/hello:v1"
	push(t, ref, layer(plainDocument))
	open = false

	dir := t.TempDir()
	helper := "#!/bin/sh\necho '{\"ServerURL\":\"x\",\"Username\":\"robot\",\"Secret\":\"s3cret\"}'\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "docker-credential-robot"), []byte(helper), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"credHelpers":{"`+host+`":"robot"}}`), 0o600))
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))

	config := definition.CatalogConfig{StoreDir: filepath.Join(dir, "store"), Registries: []string{host}}
	_, err := definition.NewCatalog(config).Pull(asAdmin(t.Context()), ref)
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "set sessions.pulled.login to docker")

	config.Login = definition.LoginDocker
	_, err = definition.NewCatalog(config).Pull(asAdmin(t.Context()), ref)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "docker-credential-robot"), []byte("#!/bin/sh\necho s3cret\nexit 1\n"), 0o700))
	_, err = definition.NewCatalog(config).Pull(asAdmin(t.Context()), ref)
	require.Error(t, err)
	require.NotContains(t, fleet.PublicMessage(err), "s3cret")
}
