package providers

import (
	"regexp"
	"strings"
)

// redactedText replaces a secret.
const redactedText = "[redacted]"

// minSecret is the minimum length of a secret, in bytes. Shorter values would occur in ordinary text.
const minSecret = 6

// secretPatterns match keys as providers and programs show them: with a well-known prefix, or with stars in the middle.
var secretPatterns = []*regexp.Regexp{
	regexp.MustCompile(`\b(?:sk|pk|rk|gsk|xai|nvapi|fleet)[-_][A-Za-z0-9_*.-]{8,}`),
	regexp.MustCompile(`\bAIza[A-Za-z0-9_*.-]{8,}`),
	regexp.MustCompile(`[A-Za-z0-9_-]*\*{3,}[A-Za-z0-9_*-]*`),
}

// labelledSecretPattern matches a secret after a word that announces one, as in "Bearer abcdef".
var labelledSecretPattern = regexp.MustCompile(`(?i)\b(bearer|x-api-key:|api[-_ ]key:)\s+[^\s"',;]{6,}`)

// secrets returns the values of the variables that hold a provider's key or that tools may use. It leaves out values that
// are shorter than minSecret.
func (s *Service) secrets() []string {
	var values []string
	for _, variable := range s.secretVariables {
		if v := strings.TrimSpace(s.cfg.Getenv(variable)); len(v) >= minSecret {
			values = append(values, v)
		}
	}
	return values
}

// redact removes the server's secrets, and everything that looks like a secret, from a text that a caller will see. It
// is for errors and for the details of probes.
func (s *Service) redact(text string) string {
	text = s.withoutSecrets(text)
	text = labelledSecretPattern.ReplaceAllString(text, "$1 "+redactedText)
	for _, pattern := range secretPatterns {
		text = pattern.ReplaceAllString(text, redactedText)
	}
	return text
}

// withoutSecrets removes the server's secrets from an agent's text. Unlike redact, it leaves text that only looks like a
// secret, since an answer about keys may contain examples.
func (s *Service) withoutSecrets(text string) string {
	for _, secret := range s.secrets() {
		text = strings.ReplaceAll(text, secret, redactedText)
	}
	return text
}
