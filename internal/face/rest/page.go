package rest

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/swaggest/swgui/v5/static"

	"fleet/gen/openapi"
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
		"/openapi.json": newAsset("openapi.json", []byte(openapi.JSON)),
		"/docs/":        http.RedirectHandler("../docs", http.StatusMovedPermanently),
	}
	for path, name := range map[string]string{"/docs": "page/docs.html", "/docs/start.js": "page/start.js"} {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		pages[path] = newAsset(name, data)
	}
	for _, name := range []string{"swagger-ui.css.gz", "swagger-ui-bundle.js.gz", "favicon-32x32.png"} {
		data, err := static.FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		pages["/docs/"+strings.TrimSuffix(name, ".gz")] = newAsset(name, data)
	}
	index, err := f.newIndex()
	if err != nil {
		return nil, err
	}
	pages["/"] = index
	return pages, nil
}

// entry is a line of the index.
type entry struct{ Key, Path, About string }

var entries = []entry{
	{"docs", "/docs", "the API, for people"},
	{"openapi", "/openapi.json", "the API, for programs (OpenAPI 3.0)"},
	{"mcp", "/mcp", "the API as MCP tools"},
	{"agents", "/v1/agents", "the fleet"},
	{"events", "/v1/events", "what happened in it"},
	{"health", "/healthz", "whether the server is alive"},
	{"ready", "/readyz", "whether it can do its work"},
}

// newIndex returns the handler of the root path: links for browsers, a JSON object for other clients.
func (f *face) newIndex() (http.Handler, error) {
	page, err := template.ParseFS(files, "page/index.html")
	if err != nil {
		return nil, err
	}
	var html strings.Builder
	if err := page.Execute(&html, map[string]any{"Version": f.config.Version, "Entries": entries}); err != nil {
		return nil, fmt.Errorf("the index page: %w", err)
	}
	object := map[string]string{"name": "fleet", "version": f.config.Version}
	for _, e := range entries {
		object[e.Key] = e.Path
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	forPeople := newAsset("index.html", []byte(html.String()))
	forPrograms := newAsset("index.json", append(data, '\n'))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if accepts(r, "text/html") {
			forPeople.ServeHTTP(w, r)
			return
		}
		forPrograms.ServeHTTP(w, r)
	}), nil
}
