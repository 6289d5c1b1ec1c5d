// Package asset serves files that are part of the program: the pages of packages rest and page.
//
// It must never serve a file that is not part of the program.
package asset

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"path"
	"strings"
	"time"
)

// mediaTypes has the content types of the assets. The operating system's own table may have other types.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".json": "application/json",
	".png":  "image/png",
	".svg":  "image/svg+xml",
}

// Asset is a file that does not change while the server runs.
type Asset struct {
	data       []byte
	mediaType  string
	etag       string
	policy     string
	cache      string
	compressed bool
}

// New returns an asset with the content data. policy is its Content-Security-Policy. The extension of name, which must be in
// mediaTypes, decides the content type. The data of a file whose name also ends in .gz is compressed. It is unpacked only for
// clients that do not accept gzip.
func New(name string, data []byte, policy string) *Asset {
	sum := sha256.Sum256(data)
	uncompressedName := strings.TrimSuffix(name, ".gz")
	return &Asset{
		data: data, mediaType: mediaTypes[path.Ext(uncompressedName)], etag: `"` + hex.EncodeToString(sum[:8]) + `"`, policy: policy,
		cache:      "no-cache", // clients revalidate, and get "not modified" if the ETag matches
		compressed: uncompressedName != name,
	}
}

// MakeImmutable makes clients cache the asset without revalidation, and returns the asset. The name of the asset must change with its content.
func (a *Asset) MakeImmutable() *Asset {
	a.cache = "public, max-age=31536000, immutable"
	return a
}

// ServeHTTP answers a GET or HEAD request.
func (a *Asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.mediaType)
	h.Set("Cache-Control", a.cache)
	h.Set("ETag", a.etag)
	h.Set("Content-Security-Policy", a.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	data := a.data
	if a.compressed {
		h.Add("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
		} else {
			h.Set("ETag", strings.TrimSuffix(a.etag, `"`)+`-plain"`)
			var err error
			if data, err = unzip(a.data); err != nil {
				h.Del("ETag")
				http.Error(w, "the file cannot be unpacked", http.StatusInternalServerError)
				return
			}
		}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func unzip(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
