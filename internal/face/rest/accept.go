package rest

import (
	"net/http"
	"strconv"
	"strings"
)

// acceptsMediaType reports whether the client names the media type in its Accept header. It ignores weights and wildcards.
func acceptsMediaType(r *http.Request, media string) bool {
	for _, header := range r.Header.Values("Accept") {
		for item := range strings.SplitSeq(header, ",") {
			name, _, _ := strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(name), media) {
				return true
			}
		}
	}
	return false
}

// acceptsGzip reports whether the client accepts gzip as a content encoding (RFC 9110, section 12.5.3): the Accept-Encoding header names gzip
// or * with a weight above 0. The weight of gzip takes precedence over that of *.
func acceptsGzip(headers []string) bool {
	gzip, wildcard := -1.0, -1.0 // the weights; negative if the header does not name them
	for item := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, params, _ := strings.Cut(item, ";")
		weight := 1.0
		for param := range strings.SplitSeq(params, ";") {
			key, value, _ := strings.Cut(param, "=")
			if strings.EqualFold(strings.TrimSpace(key), "q") {
				q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err != nil || q < 0 || q > 1 {
					q = 0 // a weight that is not valid counts as 0
				}
				weight = q
			}
		}
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "gzip", "x-gzip":
			gzip = max(gzip, weight)
		case "*":
			wildcard = max(wildcard, weight)
		}
	}
	if gzip >= 0 {
		return gzip > 0
	}
	return wildcard > 0
}
