package scripts

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"fleet/internal/app"
	"fleet/internal/identity/oidc"
	"fleet/internal/identity/oidc/oidctest"
)

// TestLoginScripts runs the scripts about signing in with an issuer.
func TestLoginScripts(t *testing.T) {
	t.Parallel()
	runLoginScripts(t, "../../../testdata/cli/login", time.Hour)
}

// TestLoginRenewedScripts runs the scripts in which tokens expire.
func TestLoginRenewedScripts(t *testing.T) {
	t.Parallel()
	runLoginScripts(t, "../../../testdata/cli/login/renewed", 8*time.Second)
}

// runLoginScripts runs the scripts of a directory with an issuer whose tokens expire after lifetime. The environment variable
// ISSUER has its URL.
func runLoginScripts(t *testing.T, dir string, lifetime time.Duration) {
	issuer := oidctest.New(t,
		oidctest.User{Subject: "1", Name: "alice", Groups: []string{"dev"}}, oidctest.User{Subject: "2", Name: "bob", Groups: []string{"dev"}},
		oidctest.User{Subject: "3", Name: "carol", Groups: []string{"staff"}})
	issuer.SetLifetime(lifetime)
	runScriptsWith(t, dir, func(e *testscript.Env, cfg *app.Config) {
		cfg.Auth = app.Auth{app.AuthTokens, app.AuthOIDC}
		cfg.OIDC = oidc.Config{
			Issuer: issuer.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret, CLIClientID: oidctest.CLIClientID,
			Roles: map[string]string{"dev": "user"},
		}
		e.Setenv("ISSUER", issuer.URL)
		e.Setenv("HOME", e.WorkDir)
		e.Setenv("XDG_CONFIG_HOME", e.WorkDir+"/config")
		e.Setenv("XDG_RUNTIME_DIR", "")
		e.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
		e.Setenv("DISPLAY", ":1") // so that the program assumes a browser
	})
}

// actAsBrowser acts as the program xdg-open. It follows the redirect in the page that it opens, and signs in as the person
// that the environment variable WHO names.
func actAsBrowser() {
	page, err := os.ReadFile(os.Args[1])
	exitOnError(err)
	address := regexp.MustCompile(`url=([^"]*)"`).FindSubmatch(page)
	ctx := context.Background()
	callbackURL, err := oidctest.Login(ctx, os.Getenv("WHO"), html.UnescapeString(string(address[1])))
	exitOnError(err)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, callbackURL.String(), http.NoBody)
	exitOnError(err)
	answer, err := http.DefaultClient.Do(r)
	exitOnError(err)
	exitOnError(answer.Body.Close())
}

// actAsApprover approves a login as the person that the environment variable WHO names. Its argument is a pipe with the
// output of `fleet login --device`. It copies the output up to the code that it enters.
func actAsApprover() {
	code := regexp.MustCompile(`enter the code (\S+)`)
	pipe, err := os.Open(os.Args[1])
	exitOnError(err)
	var found []string
	lines := bufio.NewScanner(pipe)
	for found == nil && lines.Scan() {
		fmt.Println(lines.Text())
		found = code.FindStringSubmatch(lines.Text())
	}
	answer, err := http.PostForm(os.Getenv("ISSUER")+"/device", url.Values{"user_code": {found[1]}, "username": {os.Getenv("WHO")}}) //nolint:gosec,noctx // the test's issuer
	exitOnError(err)
	exitOnError(answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		exitOnError(fmt.Errorf("the issuer answered %s", answer.Status))
	}
}

func exitOnError(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
