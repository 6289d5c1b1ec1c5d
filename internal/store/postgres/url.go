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
	return has || len(passwordKeys(u.Query())) > 0
}

// passwordKeys returns the keys of the parameters that hold a password, such as password and sslpassword.
func passwordKeys(parameters url.Values) (keys []string) {
	for key := range parameters {
		if strings.HasSuffix(strings.ToLower(key), "password") {
			keys = append(keys, key)
		}
	}
	return keys
}

// Redact returns the URL with its passwords replaced by xxxxx. If the text cannot be parsed as a URL, it returns only
// "postgres://".
func Redact(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "postgres://"
	}
	q := u.Query()
	if secret := passwordKeys(q); len(secret) > 0 {
		for _, key := range secret {
			q.Set(key, "xxxxx")
		}
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}
