package sessions

import "context"

// Source says where an agent is defined.
type Source string

// The sources.
const (
	SourceFiles Source = "files" // the agents directory
	SourceStore Source = "store" // artifacts that were pulled
	SourceFleet Source = "fleet" // agents of the fleet, by name
	SourceAll   Source = "all"
)

// Definition is an agent that is defined outside of Fleet.
type Definition struct {
	Name        string
	Description string
	Source      Source
	Path        string   // of a file, in the agents directory
	Reference   string   // of an artifact
	Digest      string   // of an artifact
	Agents      []string // that the document defines, the one that is spoken to first
	Document    string
	Problem     string // why it cannot be used; empty: it can
	// Warnings say what will not work, though it can be used: a key that is missing, a tool that is refused.
	Warnings []string
}

// Pulled is an artifact that was pulled.
type Pulled struct{ Digest, Reference string }

// Catalog has definitions. Its errors are *fleet.Error: AGENT_NOT_FOUND for what it does not have, DEFINITION_INVALID for
// what is there and cannot be used.
type Catalog interface {
	// Files lists the definitions in the agents directory by path, also those that cannot be used.
	Files(ctx context.Context) ([]Definition, error)
	// File returns the definition in a file: its path in the agents directory, or one that leads into it.
	File(ctx context.Context, path string) (Definition, error)

	// Stored lists the artifacts that the context's principal has pulled, by reference; for an admin, those of everybody.
	Stored(ctx context.Context) ([]Definition, error)
	// Artifact returns one of them by its reference or the last part of it. A principal's own come first.
	Artifact(ctx context.Context, reference string) (Definition, error)
	// Pull gets an artifact from its registry and keeps it for the context's principal, in place of one of the same
	// reference.
	Pull(ctx context.Context, reference string) (Pulled, error)
	// Remove removes an artifact that the context's principal has pulled. Sessions that are held with it go on.
	Remove(ctx context.Context, reference string) (Pulled, error)
}
