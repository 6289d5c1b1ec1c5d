package providers

import (
	"regexp"
	"strings"
)

// redacted is what stands in the place of a secret.
const redacted = "[redacted]"

// minSecret is the length from which a value is taken for a secret: shorter ones would be found in any text.
const minSecret = 6

// secretForms are forms in which providers and programs show keys: by their well-known beginnings, with stars in the
// middle, or as the value of a header.
var secretForms = []*regexp.Regexp{
	regexp.MustCompile(`\b(?:sk|pk|rk|gsk|xai|nvapi|fleet)[-_][A-Za-z0-9_*.-]{8,}`),
	regexp.MustCompile(`\bAIza[A-Za-z0-9_*.-]{8,}`),
	regexp.MustCompile(`[A-Za-z0-9_-]*\*{3,}[A-Za-z0-9_*-]*`),
}

var bearer = regexp.MustCompile(`(?i)\b(bearer|x-api-key:|api[-_ ]key:)\s+[^\s"',;]{6,}`)

// secrets are the values of all variables that hold a provider's key, and of those that tools may have.
func (s *Service) secrets() []string {
	var values []string
	for _, variable := range s.variables {
		if v := strings.TrimSpace(s.cfg.Getenv(variable)); len(v) >= minSecret {
			values = append(values, v)
		}
	}
	return values
}

// redact takes the secrets that the server knows out of a text for a caller, and what looks like one. It is for words
// about a request: errors and details.
func (s *Service) redact(text string) string {
	text = s.withoutKeys(text)
	text = bearer.ReplaceAllString(text, "$1 "+redacted)
	for _, form := range secretForms {
		text = form.ReplaceAllString(text, redacted)
	}
	return text
}

// withoutKeys takes the secrets that the server knows out of what an agent wrote, and leaves the rest as it is: a text
// about keys may well have things in it that look like one.
func (s *Service) withoutKeys(text string) string {
	for _, secret := range s.secrets() {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}
