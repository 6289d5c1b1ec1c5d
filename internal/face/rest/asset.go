package rest

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

// mediaTypes has the content types of the assets. Those of the machine may differ.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".json": "application/json",
	".png":  "image/png",
}

// asset is a file that does not change while the server runs. A file whose name ends in .gz stays compressed, and is
// sent compressed to clients that accept it.
type asset struct {
	data       []byte
	mediaType  string
	tag        string
	compressed bool
}

func newAsset(name string, data []byte) *asset {
	sum := sha256.Sum256(data)
	plain := strings.TrimSuffix(name, ".gz")
	return &asset{
		data: data, mediaType: mediaTypes[path.Ext(plain)], tag: `"` + hex.EncodeToString(sum[:8]) + `"`, compressed: plain != name,
	}
}

func (a *asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.mediaType)
	h.Set("Cache-Control", "no-cache") // clients revalidate, and get "not modified" if the ETag matches
	h.Set("ETag", a.tag)
	h.Set("Content-Security-Policy", content)
	h.Set("Referrer-Policy", "no-referrer")
	data := a.data
	if a.compressed {
		h.Add("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
		} else {
			h.Set("ETag", strings.TrimSuffix(a.tag, `"`)+`-plain"`)
			var err error
			if data, err = unzip(a.data); err != nil {
				h.Del("ETag")
				writeError(w, err)
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
