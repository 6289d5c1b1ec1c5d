package app

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"fleet/internal/face/inbound/certtest"
	"fleet/internal/identity/oidc/oidctest"
	"fleet/internal/loopback/loopbacktest"
	"fleet/internal/runner/sandbox"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/store/record"
	"fleet/internal/store/sqlite"
)

// examineFile returns the findings about a server with the settings of the file's content, by the name of their check. Each finding
// that is not good must say what to do.
func examineFile(t *testing.T, file string, environ ...string) map[string]finding {
	t.Helper()
	environ = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "FLEET_DATA=" + t.TempDir(), "FLEET_HTTP=" + loopbacktest.Address(t), "FLEET_GRPC=" + loopbacktest.Address(t),
	}, environ...)
	all := map[string]finding{}
	for _, f := range examine(t.Context(), writeConfig(t, file), environ, nil) {
		require.NotEmpty(t, f.Message)
		if f.Verdict != verdictOK {
			require.NotEmpty(t, f.Next, "%+v", f)
		}
		all[f.Check] = f
	}
	return all
}

// TestDoctor checks one finding for each of several configurations, and that no finding has the password of the store.
func TestDoctor(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	ca := certtest.New(t)
	cert := func(valid time.Duration) string {
		c, k := ca.Issue(t, "x", time.Now().Add(valid))
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "c"), c, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "k"), k, 0o600))
		return "tls: {cert: " + dir + "/c, key: " + dir + "/k}\n"
	}
	damaged := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(damaged, "fleet.db"), bytes.Repeat([]byte("no database "), 1000), 0o600))
	for name, c := range map[string]struct {
		file    string
		environ []string
		check   string
		want    verdict
		says    string
	}{
		"no store yet":        {check: "store", want: verdictOK, says: "does not exist yet"},
		"a program":           {check: "program bash", want: verdictOK, says: "/bash, GNU bash"},
		"free addresses":      {check: "address http", want: verdictOK, says: "is free"},
		"invalid":             {file: "htpp: x\n", check: "configuration", want: verdictFailed, says: `did you mean "http"`},
		"an unknown variable": {environ: []string{"FLEET_HTPT=secret"}, check: "configuration", want: verdictWarning, says: "FLEET_HTTP?"},
		"no directory":        {environ: []string{"FLEET_DATA=/dev/null"}, check: "data", want: verdictFailed, says: "not a directory"},
		"damaged":             {environ: []string{"FLEET_DATA=" + damaged}, check: "store", want: verdictFailed, says: "cannot be read"},
		"no program":          {file: "local: {projects: [{name: a, driver: acp, command: [opencode-of-mine, acp]}]}\n", check: "program opencode-of-mine", want: verdictFailed, says: "not on PATH"},
		"no repository":       {file: "local: {projects: [{name: a, repository: /none/here}]}\n", check: "project a", want: verdictFailed, says: "/none/here"},
		"an unknown project":  {file: "local: {projects: [{name: web}]}\nlimits: {projects: {Web: {agents: 1}}}\n", check: "limits", want: verdictWarning, says: "limits.projects has Web"},
		"an address in use":   {environ: []string{"FLEET_GRPC=" + taken.Addr().String()}, check: "address grpc", want: verdictFailed, says: "another program"},
		"a foreign address":   {file: "insecure_plaintext: true\nauth: tokens\n", environ: []string{"FLEET_GRPC=192.0.2.1:1"}, check: "address grpc", want: verdictFailed, says: "192.0.2.1"},
		"no Postgres":         {environ: []string{"FLEET_STORE=postgres://me:s3cret@" + loopbacktest.Address(t) + "/x"}, check: "store", want: verdictFailed, says: "connection refused"},
		"no Coder":            {environ: []string{"FLEET_PLACES=coder"}, check: "coder", want: verdictFailed, says: "no Coder deployment"},
		"a certificate":       {file: cert(30 * 24 * time.Hour), check: "tls", want: verdictOK, says: "valid until"},
		"soon":                {file: cert(24 * time.Hour), check: "tls", want: verdictWarning, says: "expires on"},
		"expired":             {file: cert(-time.Hour), check: "tls", want: verdictFailed, says: "expired on"},
		"a token of metrics":  {file: "metrics: 127.0.0.1:0\nmetrics_token_file: " + damaged + "/fleet.db\n", check: "metrics", want: verdictOK, says: "needs the token in"},
		"no token of metrics": {file: "metrics: 127.0.0.1:0\nmetrics_token_file: /none/here\n", check: "metrics", want: verdictFailed, says: "/none/here"},
		"no certificate":      {file: "tls: {cert: /none, key: /none}\n", check: "tls", want: verdictFailed, says: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := examineFile(t, c.file, c.environ...)
			require.Equal(t, c.want, all[c.check].Verdict, "%+v", all)
			require.Contains(t, all[c.check].Message, c.says)
			b, err := json.Marshal(all)
			require.NoError(t, err)
			require.NotContains(t, string(b), "s3cret")
		})
	}
}

// TestDoctorAndStores examines stores whose schema has this version, an older one or a newer one.
func TestDoctorAndStores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), filepath.Join(dir, "fleet.db"), sqlite.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Contains(t, examineFile(t, "", "FLEET_DATA="+dir)["store"].Message, "SQLite, schema ")
	require.Equal(t, verdictOK, examineFile(t, "", "FLEET_DATA="+dir)["data"].Verdict)

	all := examineFile(t, "", "FLEET_STORE="+pgtest.URL(t))
	require.NotEqual(t, verdictFailed, all["store"].Verdict, "it may be slow: %s", all["store"].Message)
	require.Contains(t, all["store"].Message, "Postgres ")
	require.Equal(t, verdictOK, all["clock"].Verdict)

	d := &doctor{}
	d.checkSchema("SQLite", record.Schema{Have: 9, Want: 8, Oldest: 9}, "x", 0)
	d.checkSchema("SQLite", record.Schema{Have: 9, Want: 8, Oldest: 8}, "x", 0)
	d.checkSchema("SQLite", record.Schema{Have: 7, Want: 8}, "x", 0)
	d.checkSchema("SQLite", record.Schema{Have: 8, Want: 8}, "x", time.Second)
	var found []verdict
	for _, f := range d.findings {
		found = append(found, f.Verdict)
	}
	require.Equal(t, []verdict{verdictFailed, verdictWarning, verdictWarning, verdictWarning}, found, "an old Fleet must fail only if the schema says so")
}

// clockLag is how far the clocks of other machines are behind in tests. The doctor reports up to a minute less if the answer takes that long.
const clockLag = 10*time.Minute + 50*time.Second

// TestDoctorAndCoder examines a deployment whose clock is wrong, with a valid and an invalid token.
func TestDoctorAndCoder(t *testing.T) {
	t.Parallel()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(-clockLag).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/json")
		answers := map[string]string{
			"/api/v2/buildinfo": `{"version":"v2.30.0"}`, "/api/v2/users/me": `{"id":"00000000-0000-0000-0000-000000000001","username":"fleet"}`,
			"/api/v2/templates": `[]`,
		}
		if answer, ok := answers[r.URL.Path]; ok && (r.URL.Path == "/api/v2/buildinfo" || r.Header.Get("Coder-Session-Token") == "valid") {
			_, _ = w.Write([]byte(answer))
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"message":"You are signed out."}`))
	})
	server := httptest.NewServer(h)
	defer server.Close()
	all := examineFile(t, "", "FLEET_PLACES=coder", "CODER_URL="+server.URL, "CODER_SESSION_TOKEN=valid")
	require.Equal(t, verdictOK, all["coder"].Verdict, all["coder"].Message)
	require.Equal(t, "v2.30.0, signed in as fleet", all["coder"].Message)
	require.Equal(t, verdictFailed, all["clock"].Verdict)
	require.Contains(t, all["clock"].Message, "this machine's clock and Coder's differ by 10m")
	require.Equal(t, verdictWarning, all["templates"].Verdict)

	all = examineFile(t, "", "FLEET_PLACES=coder", "CODER_URL="+server.URL, "CODER_SESSION_TOKEN=s3cret")
	require.Equal(t, verdictFailed, all["coder"].Verdict)
	require.NotContains(t, all["coder"].Message, "s3cret")
}

// TestDoctorAndIssuer examines issuers that work and issuers that do not.
func TestDoctorAndIssuer(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	settings := func(url, more string) string {
		return "auth: oidc\noidc: {issuer: \"" + url + "\", client_id: fleet, default_role: user" + more + "}\n"
	}
	all := examineFile(t, settings(issuer.URL, ""))
	require.Equal(t, verdictOK, all["oidc"].Verdict, all["oidc"].Message)
	require.Regexp(t, `answers, with [1-9]\d* keys$`, all["oidc"].Message)
	require.Equal(t, finding{Check: "clock", Verdict: verdictOK, Message: "agrees with the issuer's"}, all["clock"])
	all = examineFile(t, settings(issuer.URL, ", scopes: [openid, everything]"))
	require.Equal(t, verdictWarning, all["oidc"].Verdict)
	require.Contains(t, all["oidc"].Message, "does not have the scopes everything")
	all = examineFile(t, settings(issuer.URL, ", client_secret_file: /none/here"))
	require.Equal(t, verdictFailed, all["oidc"].Verdict)
	require.Contains(t, all["oidc"].Message, "/none/here")

	answers := map[string]string{}
	oddIssuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(-clockLag).UTC().Format(http.TimeFormat))
		if answer, ok := answers[r.URL.Path]; ok {
			_, _ = w.Write([]byte(answer))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer oddIssuer.Close()
	for _, c := range []struct{ about, keys, says, next string }{
		{"", "", "answered 404", "check oidc.issuer"},
		{`<html>`, "", "did not answer with JSON", "check oidc.issuer"},
		{`{"issuer":"https://other"}`, "", `publishes the name "https://other"`, "exactly the name"},
		{`{"issuer":"` + oddIssuer.URL + `","jwks_uri":"` + oddIssuer.URL + `/keys"}`, "", "keys cannot be read", "make the issuer's keys readable"},
		{`{"issuer":"` + oddIssuer.URL + `","jwks_uri":"` + oddIssuer.URL + `/keys"}`, `{"keys":[]}`, "has no key", "make the issuer's keys readable"},
	} {
		clear(answers)
		for path, answer := range map[string]string{"/.well-known/openid-configuration": c.about, "/keys": c.keys} {
			if answer != "" {
				answers[path] = answer
			}
		}
		all = examineFile(t, settings(oddIssuer.URL, ""))
		require.Equal(t, verdictFailed, all["oidc"].Verdict, c.says)
		require.Contains(t, all["oidc"].Message, c.says)
		require.Contains(t, all["oidc"].Next, c.next)
		require.Equal(t, verdictFailed, all["clock"].Verdict)
		require.Contains(t, all["clock"].Message, "this machine's clock and the issuer's differ by 10m")
	}
	issuer.Stop()
	require.Contains(t, examineFile(t, settings(issuer.URL, ""))["oidc"].Message, "connection refused")
}

// TestDoctorAndServer examines a server that runs, and checks the output of the command.
func TestDoctorAndServer(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{})
	require.Equal(t, finding{Check: "server", Verdict: verdictOK, Message: "it runs at " + f.HTTPAddr() + " and is ready"},
		examineFile(t, "", "FLEET_HTTP="+f.HTTPAddr(), "FLEET_GRPC="+f.GRPCAddr())["server"])

	var out, errs bytes.Buffer
	p := &program{version: "test", stdin: strings.NewReader(""), stdout: &out, stderr: &errs, environ: []string{"FLEET_HTTP=" + f.HTTPAddr(), "FLEET_DATA=/dev/null", "PATH=" + os.Getenv("PATH")}}
	config := writeConfig(t, "")
	require.Equal(t, 1, p.run(t.Context(), []string{"doctor", "--config", config}))
	require.Regexp(t, `(?m)^failed +data +/dev/null is not a directory: name a directory in the setting data$`, out.String())
	require.Contains(t, errs.String(), "2 of", "the failed checks of the data directory and of the store must be counted")
	out.Reset()
	require.Equal(t, 1, p.run(t.Context(), []string{"doctor", "--json", "--config", config}))
	var report struct {
		Version string
		Checks  []finding
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	require.Equal(t, 2, countFailed(report.Checks))
	data := t.TempDir()
	out.Reset()
	require.Zero(t, p.run(t.Context(), []string{"doctor", "--config", config, "--data", data}))
	require.Regexp(t, `(?m)^ok +data +`+data+`$`, out.String())
	p.environ[1] = "FLEET_DATA=" + data
	require.Zero(t, p.run(t.Context(), []string{"doctor", "--config", config}))
}

// TestDoctorSaysWhatFreesSpace checks that the advice for a full disk names what uses more space than is free, and nothing that
// would free no space.
func TestDoctorSaysWhatFreesSpace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, size := range map[string]int{"agents/a/work/big": 1 << 20, "kept/b/big": 2 << 20, "fleet.db": 64 << 10} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600))
	}
	d := &doctor{}
	d.checkDisk(t.Context(), dir, 512<<10)
	f := d.findings[0]
	require.Equal(t, verdictFailed, f.Verdict)
	require.Equal(t, "only 512 KiB free", f.Message)
	require.Regexp(t, "agents: 1[.0-9]* MiB in .*kept work: 2[.0-9]* MiB in .*fleet kept list", f.Next)
	require.NotContains(t, f.Next, "database", "it is smaller than what is free")
	require.NotContains(t, f.Next, "retention", "a shorter retention does not shrink the database")
	d.checkDisk(t.Context(), dir, 4<<10)
	require.Contains(t, d.findings[1].Next, "the database: ")
	d.checkDisk(t.Context(), dir, 1<<40)
	require.Equal(t, verdictOK, d.findings[2].Verdict)
}

// TestDoctorFlags checks that the doctor examines the server that the flags describe.
func TestDoctorFlags(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	flags := pflag.NewFlagSet("doctor", pflag.ContinueOnError)
	addFlags(flags, &c)
	data := t.TempDir()
	require.NoError(t, flags.Parse([]string{"--places", "coder", "--data", data}))
	found := map[string]finding{}
	for _, f := range examine(t.Context(), writeConfig(t, "places: [local]"), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, flags) {
		found[f.Check] = f
	}
	require.Equal(t, verdictFailed, found["coder"].Verdict)
	require.Contains(t, found["coder"].Message, "no Coder deployment")
	require.Contains(t, found["data"].Message, data)
}

// TestDoctorTriesPrograms checks that the doctor finds a program that works only outside of the sandbox, and names the directory
// that the program needs.
func TestDoctorTriesPrograms(t *testing.T) {
	t.Parallel()
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	parts, program := filepath.Join(home, "parts"), filepath.Join(home, "tools", "agent-of-mine")
	require.NoError(t, os.MkdirAll(parts, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Dir(program), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(parts, "part.sh"), []byte("echo version 1\n"), 0o600))
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n. "+parts+"/part.sh\n"), 0o700))
	project := "projects: [{name: a, driver: command, command: [" + program + "]}]"
	all := examineFile(t, "local: {"+project+"}\n")
	require.Equal(t, verdictOK, all["program agent-of-mine"].Verdict)
	f := all["sandbox of agent-of-mine"]
	require.Equal(t, verdictWarning, f.Verdict, "%+v", f)
	require.Equal(t, "add "+parts+" to local.read", f.Next)
	require.Contains(t, f.Message, "denied")
	require.NotContains(t, examineFile(t, "local: {read: ["+parts+"], "+project+"}\n"), "sandbox of agent-of-mine")
	require.NotContains(t, examineFile(t, "local: {sandbox: none, "+project+"}\n"), "sandbox of agent-of-mine")
}
