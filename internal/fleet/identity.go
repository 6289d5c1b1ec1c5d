package fleet

import (
	"strings"
	"time"
	"unicode"
)

// Subject is a person as an identity source outside Fleet describes them.
type Subject struct {
	Source string // "coder" or "oidc"
	// ID never changes and is never given to another person: the id of a Coder user, the issuer and sub of a JWT.
	ID string
	// Name is for people. It can change, and can be given to another person.
	Name string
	// Groups are the person's current groups.
	Groups []string
}

// Identity maps a subject to a principal. Only its Groups change.
type Identity struct {
	Principal string // name
	Source    string
	SubjectID string
	CreatedAt time.Time
	Groups    []string // the person's groups at their last call
}

// maxSubjectName limits how many characters of a subject's name become part of the principal's name.
const maxSubjectName = 80

// PrincipalName returns the name that the subject's principal gets if the name is free, for example "coder:alice". The
// name of a token contains no colon, so a subject never gets the name of a token. Characters that could mislead readers,
// or that do not fit into a reference to an agent, are replaced.
func (s Subject) PrincipalName() string {
	n := 0
	name := strings.Map(func(r rune) rune {
		if n++; n > maxSubjectName {
			return -1
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(".-_@+", r) {
			return unicode.ToLower(r)
		}
		return '_'
	}, s.Name)
	if name == "" {
		name = "_"
	}
	return s.Source + ":" + name
}
