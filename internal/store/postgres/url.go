package postgres

import (
	"net/url"
	"strings"
)

// IsURL reports whether the text is the URL of a Postgres database.
func IsURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// HasPassword reports whether the URL contains a password. If the text cannot be parsed as a URL, it reports whether the text
// may contain one.
func HasPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return strings.Contains(text, "@")
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password")
}

// Redact returns the URL with its password replaced by xxxxx. If the text cannot be parsed as a URL, it returns only
// "postgres://".
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
