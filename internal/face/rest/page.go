package rest

import (
	"embed"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/swaggest/swgui/v5/static"

	"fleet/gen/openapi"
	"fleet/internal/face/asset"
)

//go:embed page
var files embed.FS

// content is the Content-Security-Policy of the pages: only their own files. Swagger UI sets styles in its markup.
const content = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// newPages returns the handlers of the fixed paths. The API page is Swagger UI, from files that its Go module embeds,
// so it needs no network.
func (f *face) newPages() (map[string]http.Handler, error) {
	pages := map[string]http.Handler{
		"/healthz":      http.HandlerFunc(alive),
		"/readyz":       http.HandlerFunc(f.ready),
		"/openapi.json": asset.New("openapi.json", []byte(openapi.JSON), content),
		"/docs/":        http.RedirectHandler("../docs", http.StatusMovedPermanently),
	}
	for path, name := range map[string]string{"/docs": "page/docs.html", "/docs/start.js": "page/start.js"} {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		pages[path] = asset.New(name, data, content)
	}
	for _, name := range []string{"swagger-ui.css.gz", "swagger-ui-bundle.js.gz", "favicon-32x32.png"} {
		data, err := static.FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		pages["/docs/"+strings.TrimSuffix(name, ".gz")] = asset.New(name, data, content)
	}
	index, err := f.newIndex()
	if err != nil {
		return nil, err
	}
	pages["/"] = index
	return pages, nil
}

// entries has the lines of the index.
var entries = map[string]string{
	"docs": "/docs", "openapi": "/openapi.json", "mcp": "/mcp", "agents": "/v1/agents", "events": "/v1/events", "health": "/healthz", "ready": "/readyz",
}

// newIndex returns the handler of the root path for programs: what there is, and where. Browsers get the live page, of
// package page.
func (f *face) newIndex() (http.Handler, error) {
	object := map[string]string{"name": "fleet", "version": f.config.Version}
	maps.Copy(object, entries)
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return asset.New("index.json", append(data, '\n'), content), nil
}
