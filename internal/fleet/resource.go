package fleet

import (
	"encoding/json"
	"fmt"
)

// Resource is something that people declare and name, such as a pool. Few exist of each kind, so they are read as a whole.
type Resource struct {
	Kind     ResourceKind
	Name     string
	Body     json.RawMessage // the JSON form of the kind's Go type, see ReadResources
	Revision int64           // incremented by every write; set by the store
}

// ResourceKind is a kind of resources. It is also the word for them in messages to people.
type ResourceKind string

// ReadResources returns the bodies of the resources that match.
func ReadResources[T any](tx ReadTx, f ResourceFilter) ([]*T, error) {
	rows, err := tx.Resources(f)
	if err != nil {
		return nil, err
	}
	out := make([]*T, len(rows))
	for i, r := range rows {
		out[i] = new(T)
		if err := json.Unmarshal(r.Body, out[i]); err != nil {
			return nil, fmt.Errorf("the %s %q is not readable: %w", r.Kind, r.Name, err)
		}
	}
	return out, nil
}

// ReadResource returns the body of the resource, or nil if it does not exist.
func ReadResource[T any](tx ReadTx, kind ResourceKind, name string) (*T, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // a filter without a name selects all of the kind
	}
	return First(ReadResources[T](tx, ResourceFilter{Kind: kind, Name: name}))
}

// PutResource writes the resource with the body, whether it exists or not.
func PutResource(tx Tx, kind ResourceKind, name string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("the %s %q: %w", kind, name, err)
	}
	return tx.Insert(&Resource{Kind: kind, Name: name, Body: b})
}

// OwnedKey returns the key of a pool, schedule or webhook. Each owner can use a name only once for each kind.
func OwnedKey(name, owner string) string { return name + "@" + owner }
