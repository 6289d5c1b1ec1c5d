package fleet

import (
	"strings"
	"time"
	"unicode"
)

// Subject is a person as a source outside Fleet knows it.
type Subject struct {
	Source string // "coder" or "oidc"
	// ID never changes and is never given to another person: the id of a Coder user, the issuer and sub of a JWT.
	ID string
	// Name is for people. It can change, and can be given to another person.
	Name string
	// Groups are the groups that the source puts the person in now.
	Groups []string
}

// Identity says which subject is which principal. Only its Groups change.
type Identity struct {
	Principal string // name
	Source    string
	SubjectID string
	CreatedAt time.Time
	Groups    []string // of the person, as last seen
}

// maxSubjectName is the largest number of characters that a principal's name has from its subject.
const maxSubjectName = 80

// PrincipalName returns the name of the subject's principal if nobody has it yet: "coder:alice". The name of a token has
// no colon, so a subject never has the name of a token. Characters that could mislead readers, or that do not fit into
// a reference to an agent, are replaced.
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
