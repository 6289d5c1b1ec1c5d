package identity

import (
	"fmt"
	"maps"
	"slices"

	"fleet/internal/fleet"
)

// Roles maps groups or roles of another system to roles in Fleet: viewer, user or admin.
type Roles map[string]string

// scopes maps each role to its scope.
var scopes = map[string]fleet.Scope{"viewer": fleet.ScopeRead, "user": fleet.ScopeRun, "admin": fleet.ScopeAdmin}

// IsRole reports whether there is a role with the name.
func IsRole(name string) bool {
	_, ok := scopes[name]
	return ok
}

// Validate returns an error that names the first invalid key, or nil. key is the configuration key of r itself.
func (r Roles) Validate(key string) error {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if !IsRole(r[name]) {
			return fmt.Errorf("%s is %q: it must be viewer, user or admin", key+"."+name, r[name])
		}
	}
	return nil
}

// Scope returns the widest scope of the default role byDefault, which may be empty, and of the roles of the names. ok is false
// if no name has a role and there is no default role.
func (r Roles) Scope(names []string, byDefault string) (scope fleet.Scope, ok bool) {
	scope, ok = scopes[byDefault]
	for _, name := range names {
		if s, listed := scopes[r[name]]; listed && (!ok || s > scope) {
			scope, ok = s, true
		}
	}
	return scope, ok
}
