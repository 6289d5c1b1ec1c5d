package coder_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/dnaeon/go-vcr.v3/cassette"

	"fleet/internal/runner/remote"
)

// Tokens that Fleet creates have a random name and secret. Recordings have fixedTokenName and fixedToken instead.
var (
	tokenNamePattern = regexp.MustCompile(`"token_name":"fleet-[0-9a-f]{8}"`)
	keyPathPattern   = regexp.MustCompile(`/keys/[A-Za-z0-9]{10}$`)
)

const (
	fixedTokenName = `"token_name":"fleet-0"`
	fixedToken     = "minted-token"
)

// scrub removes secrets from the interaction, and values that differ between recordings.
func scrub(i *cassette.Interaction) error {
	i.Request.Headers, i.Request.Host, i.Request.RemoteAddr, i.Request.Form = nil, "", "", nil
	i.Request.URL = strings.Replace(i.Request.URL, os.Getenv("CODER_URL"), recordedURL, 1)
	i.Request.URL = keyPathPattern.ReplaceAllString(i.Request.URL, "/keys/minted")
	i.Request.Body = tokenNamePattern.ReplaceAllString(i.Request.Body, fixedTokenName)
	i.Response.Body = tokenPattern.ReplaceAllString(i.Response.Body, fixedToken)
	headers := http.Header{}
	for _, name := range []string{"Content-Type", "Retry-After", "Location", remote.VersionHeader} {
		if v := i.Response.Headers.Get(name); v != "" {
			headers.Set(name, v)
		}
	}
	i.Response.Headers, i.Response.Duration = headers, 0
	for old, replacement := range map[string]string{
		os.Getenv("CODER_URL"): recordedURL, os.Getenv("TESTBED_DIR"): "/testbed", os.Getenv("CODER_SESSION_TOKEN"): "TOKEN",
	} {
		if old != "" {
			i.Response.Body = strings.ReplaceAll(i.Response.Body, old, replacement)
		}
	}
	if host, err := os.Hostname(); err == nil {
		i.Response.Body = strings.ReplaceAll(i.Response.Body, host, "host")
	}
	i.Response.ContentLength = int64(len(i.Response.Body))
	return nil
}

// secretWords must not occur in a recording, in upper or lower case.
var secretWords = []string{"coder-session-token", "set-cookie", "authorization", "bearer ", "-----begin", "sk-ant-", "ghp_", "\n                date:", "/root/", "/home/"}

// tokenPattern matches Coder's session tokens.
var tokenPattern = regexp.MustCompile(`\b[A-Za-z0-9]{10}-[A-Za-z0-9]{22}\b`)

// TestCassettesHaveNoSecrets searches every cassette for secrets.
func TestCassettesHaveNoSecrets(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(cassettes, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			c, err := cassette.Load(strings.TrimSuffix(file, ".yaml"))
			require.NoError(t, err)
			for _, i := range c.Interactions { // checks the decoded bodies, because the file has some bodies in base64
				b = append(b, i.Request.Body+"\n"+i.Response.Body+"\n"...)
			}
			lower := bytes.ToLower(b)
			for _, word := range secretWords {
				require.False(t, bytes.Contains(lower, []byte(word)), "the cassette must not have %q", word)
			}
			require.Nil(t, tokenPattern.FindIndex(b), "the cassette must not have a text that looks like a session token")
		})
	}
}
