package rest

import (
	"embed"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/swaggest/swgui/v5/static"

	"fleet/gen/openapi"
	"fleet/internal/face/asset"
)

//go:embed page
var pageFiles embed.FS

// contentSecurityPolicy is the Content-Security-Policy of the pages. It allows only their own files, and inline styles, which Swagger
// UI uses.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// sharedPages returns the handlers of the pages that are the same for every server of the process. The API page is Swagger UI,
// from files that its Go module embeds, so it needs no network.
var sharedPages = sync.OnceValues(func() (map[string]http.Handler, error) {
	pages := map[string]http.Handler{
		"/openapi.json": asset.New("openapi.json", []byte(openapi.JSON), contentSecurityPolicy),
		"/docs/":        http.RedirectHandler("../docs", http.StatusMovedPermanently),
	}
	for path, name := range map[string]string{"/docs": "page/docs.html", "/docs/start.js": "page/start.js"} {
		data, err := pageFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		pages[path] = asset.New(name, data, contentSecurityPolicy)
	}
	for _, name := range []string{"swagger-ui.css.gz", "swagger-ui-bundle.js.gz", "favicon-32x32.png"} {
		data, err := static.FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		pages["/docs/"+strings.TrimSuffix(name, ".gz")] = asset.New(name, data, contentSecurityPolicy)
	}
	return pages, nil
})

// newPages returns the handlers of all fixed paths, by path.
func (f *face) newPages() (map[string]http.Handler, error) {
	shared, err := sharedPages()
	if err != nil {
		return nil, err
	}
	// The root lists paths of the server for programs. Browsers get the live page of package page instead.
	index, err := json.Marshal(map[string]string{
		"name": "fleet", "version": f.config.Version, "docs": "/docs", "openapi": "/openapi.json", "mcp": "/mcp", "agents": "/v1/agents",
		"events": "/v1/events", "health": "/healthz", "ready": "/readyz",
	})
	if err != nil {
		return nil, err
	}
	pages := maps.Clone(shared)
	pages["/"] = asset.New("index.json", append(index, '\n'), contentSecurityPolicy)
	pages["/healthz"], pages["/readyz"] = http.HandlerFunc(serveAlive), http.HandlerFunc(f.serveReady)
	return pages, nil
}
