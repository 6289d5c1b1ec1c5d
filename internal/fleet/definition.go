package fleet

import "context"

// DefinitionSource says where an agent is defined.
type DefinitionSource string

// The sources of definitions.
const (
	DefinitionFiles DefinitionSource = "files" // the agents directory
	DefinitionStore DefinitionSource = "store" // artifacts that were pulled
	DefinitionFleet DefinitionSource = "fleet" // agents of the fleet, by name
)

// Definition describes an agent for sessions. It comes from a document that a place has read, or it stands for an agent of
// the fleet.
type Definition struct {
	Name        string
	Description string
	Source      DefinitionSource
	Path        string   // of the file in the agents directory, if Source is DefinitionFiles
	Reference   string   // of the artifact, if Source is DefinitionStore
	Digest      string   // of the artifact, if Source is DefinitionStore
	Agents      []string // agents of the document; users talk to the first
	Document    string
	Problem     string // why it cannot be used; empty if it can be used
	// Warnings describe parts that will not work although the definition can be used, for example a missing key or a
	// refused tool.
	Warnings []string
}

// PulledArtifact identifies an artifact that was pulled or removed.
type PulledArtifact struct{ Digest, Reference string }

// Catalog gives access to the definitions of a place. Its errors are *Error: AGENT_NOT_FOUND if the definition does not
// exist, DEFINITION_INVALID if it exists but cannot be used.
type Catalog interface {
	// Files lists the definitions in the agents directory by path, including those that cannot be used.
	Files(ctx context.Context) ([]Definition, error)
	// File returns the definition in a file. The path is relative to the agents directory. It may also be absolute, begin
	// with ~/, or be relative to the server's working directory, if it leads into the agents directory.
	File(ctx context.Context, path string) (Definition, error)

	// Artifacts lists the artifacts that the context's principal has pulled, by reference. An admin gets those of all
	// principals.
	Artifacts(ctx context.Context) ([]Definition, error)
	// Artifact returns an artifact by its reference, or by the last part of its reference. The principal's own artifacts
	// take precedence.
	Artifact(ctx context.Context, reference string) (Definition, error)
	// Pull downloads an artifact from its registry and keeps it for the context's principal. It replaces an artifact
	// with the same reference.
	Pull(ctx context.Context, reference string) (PulledArtifact, error)
	// Remove removes an artifact that the context's principal has pulled. Sessions that use it continue.
	Remove(ctx context.Context, reference string) (PulledArtifact, error)
}
