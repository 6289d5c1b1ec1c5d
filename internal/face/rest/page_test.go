package rest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIndex(t *testing.T) {
	t.Parallel()
	f := newTestFace(t, newStub(), Config{Version: "1.2.3<x>"})
	w := serve(f, "GET", "/", "")
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var object map[string]string
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &object))
	require.Equal(t, "1.2.3<x>", object["version"])
	require.Equal(t, "/docs", object["docs"])
	require.Equal(t, "/openapi.json", object["openapi"])
	require.Equal(t, "/mcp", object["mcp"])
	require.Equal(t, "/v1/agents", object["agents"])
}

func TestAPIPageLoadsItsOwnFilesOnly(t *testing.T) {
	t.Parallel()
	f := newTestFace(t, newStub(), Config{})
	page := serve(f, "GET", "/docs", "")
	require.Equal(t, http.StatusOK, page.Code)
	require.Contains(t, page.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, page.Body.String(), "//")
	for path, mediaType := range map[string]string{
		"/docs/swagger-ui.css":       "text/css; charset=utf-8",
		"/docs/swagger-ui-bundle.js": "text/javascript; charset=utf-8",
		"/docs/start.js":             "text/javascript; charset=utf-8",
		"/docs/favicon-32x32.png":    "image/png",
	} {
		require.Contains(t, page.Body.String(), `"`+strings.TrimPrefix(path, "/")+`"`)
		plain := serve(f, "GET", path, "")
		require.Equal(t, http.StatusOK, plain.Code)
		require.Equal(t, mediaType, plain.Header().Get("Content-Type"))
		require.Empty(t, plain.Header().Get("Content-Encoding"))
		require.NotEmpty(t, plain.Body.Bytes())

		packed := serve(f, "GET", path, "", "Accept-Encoding", "br, gzip")
		data := packed.Body.Bytes()
		if packed.Header().Get("Content-Encoding") == "gzip" {
			require.NotEqual(t, plain.Header().Get("ETag"), packed.Header().Get("ETag"))
			z, err := gzip.NewReader(bytes.NewReader(data))
			require.NoError(t, err)
			data, err = io.ReadAll(z)
			require.NoError(t, err)
		}
		require.Equal(t, plain.Body.Bytes(), data)

		again := serve(f, "GET", path, "", "If-None-Match", plain.Header().Get("ETag"))
		require.Equal(t, http.StatusNotModified, again.Code)
		require.Zero(t, again.Body.Len())
	}
	w := serve(f, "GET", "/docs/", "")
	require.Equal(t, http.StatusMovedPermanently, w.Code)
	require.Equal(t, "/docs", w.Header().Get("Location"))
	require.Equal(t, http.StatusNotFound, serve(f, "GET", "/docs/../page.go", "").Code)
	require.Equal(t, http.StatusOK, serve(f, "HEAD", "/docs", "").Code)
}
