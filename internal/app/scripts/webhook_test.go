package scripts

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"fleet/internal/app"
)

// TestWebhookScripts runs the scripts about webhooks. RECEIVER is the URL of a receiver, which refuses requests to /busy.
func TestWebhookScripts(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "come back later")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)
	runScriptsWith(t, "../../../testdata/cli/webhooks", func(e *testscript.Env, cfg *app.Config) {
		cfg.Webhooks.Allow = []string{"127.0.0.1"}
		e.Setenv("RECEIVER", receiver.URL)
	})
}
