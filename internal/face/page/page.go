// Package page is the live page of the fleet, for browsers. Its sources are in src, a Svelte program that uses the REST
// face and nothing else; the files that `make page` builds from them are in dist and embedded, so that a build of Fleet
// needs no Node. The package also signs browsers in and out.
//
// Package app serves it. It must never import the core, or have data that the REST face does not offer to everybody.
package page

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"fleet/internal/face/asset"
)

//go:embed dist
var dist embed.FS

// contentSecurityPolicy is the Content-Security-Policy of the page. It allows only the page's own files and images in data URLs. Code and
// style in the markup are not allowed.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// views are the first parts of the paths for which the page has views. lib/route.svelte.ts has the same list as rooms, without "".
var views = []string{"", "attention", "queue", "agents", "tasks", "usage", "toolsets", "admin"}

// Handler returns the handler of the page and its session. All other requests go to next. Requests of the API that have no credentials
// get the token of the browser's session.
func Handler(next http.Handler, s *Sessions) (http.Handler, error) {
	c, err := loadContent()
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch file := c.files[r.URL.Path]; {
		case r.URL.Path == "/session" || strings.HasPrefix(r.URL.Path, "/session/"):
			s.ServeHTTP(w, r)
		case file != nil && isGetOrHead(r):
			file.ServeHTTP(w, r)
		case isGetOrHead(r) && isView(r.URL.Path) && wantsHTML(r):
			w.Header().Set("Vary", "Accept")
			if to := s.numericAddress(r); to != "" {
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
				return
			}
			c.index.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, withToken(r))
		}
	}), nil
}

func isGetOrHead(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

// isView reports whether the page has a view at the path.
func isView(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains(views, first)
}

// wantsHTML reports whether the client is a browser that opens an address. Programs get JSON at the same addresses.
func wantsHTML(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Accept"), func(v string) bool { return strings.Contains(v, "text/html") })
}

// content has the files that a browser loads.
type content struct {
	html  []byte
	index http.Handler            // of html
	files map[string]http.Handler // by their paths
}

// loadContent reads the built files and compresses the assets, once for all servers of the process.
var loadContent = sync.OnceValues(func() (content, error) {
	c := content{files: map[string]http.Handler{}}
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		switch path.Dir(name) {
		case "dist/assets": // their names have a hash of their content
			packed, err := compress(data)
			if err != nil {
				return err
			}
			c.files[strings.TrimPrefix(name, "dist")] = asset.New(name+".gz", packed, contentSecurityPolicy).MakeImmutable()
		case "dist":
			if name == "dist/index.html" {
				c.html, c.index = data, asset.New(name, data, contentSecurityPolicy)
			}
		}
		return nil
	})
	return c, err
})

// writeArrival answers with the page. The page contains the arrival in a block of data, which only its own scripts can read.
func writeArrival(w http.ResponseWriter, a arrival) error {
	c, err := loadContent()
	if err != nil {
		return err
	}
	data, err := json.Marshal(a) // escapes <, > and &
	if err != nil {
		return err
	}
	setSignInHeaders(w.Header())
	block := slices.Concat([]byte(`<script type="application/json" id="arrival">`), data, []byte("</script></head>"))
	_, _ = w.Write(bytes.Replace(c.html, []byte("</head>"), block, 1)) // the client may have disconnected
	return nil
}

func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	err = z.Close() // writes the rest of the data
	return b.Bytes(), err
}
