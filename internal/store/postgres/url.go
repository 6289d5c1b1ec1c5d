package postgres

import (
	"net/url"
	"strings"
)

// IsURL reports whether the text is the URL of a Postgres database.
func IsURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// HasPassword reports whether the URL contains a password. For a text that is not a URL, it reports whether it may.
func HasPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return strings.Contains(text, "@")
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password")
}

// Redact returns the URL with its password replaced by xxxxx.
func Redact(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "postgres://"
	}
	if q := u.Query(); q.Has("password") {
		q.Set("password", "xxxxx")
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}
