package definition

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"fleet/internal/fleet"
	"fleet/internal/model/dial"
)

// agentAnnotations mark artifacts that `cagent push` or, in newer versions, `docker agent push` has created.
var agentAnnotations = []string{"io.docker.agent.version", "io.docker.cagent.version"}

// Pull implements fleet.Catalog. It uses the logins of the server's user only if CatalogConfig.Login is LoginDocker, because
// with them every caller can pull everything that these logins can access.
func (c *Catalog) Pull(ctx context.Context, reference string) (fleet.PulledArtifact, error) {
	if c.config.StoreDir == "" {
		return fleet.PulledArtifact{}, fleet.Errorf(fleet.ReasonUnimplemented, "this server does not store agents from registries")
	}
	who, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return fleet.PulledArtifact{}, err
	}
	ref, err := requestedReference(reference)
	if err != nil {
		return fleet.PulledArtifact{}, err
	}
	host := ref.Context().RegistryStr()
	if c.config.Registries != nil && !slices.Contains(c.config.Registries, host) {
		return fleet.PulledArtifact{}, fleet.Errorf(fleet.ReasonPermissionDenied, "this server pulls agents from %s only, not from %s",
			strings.Join(c.config.Registries, ", "), host)
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.PullTimeout)
	defer cancel()
	a, err := c.fetch(ctx, ref)
	if err != nil {
		return fleet.PulledArtifact{}, c.pullError(ctx, ref, err)
	}
	a.Owner = who.Name
	if err := c.store(a); err != nil {
		return fleet.PulledArtifact{}, hostError("cannot keep the agent", err)
	}
	return fleet.PulledArtifact{Digest: a.Digest, Reference: a.Reference}, nil
}

// requestedReference parses the reference of a request.
func requestedReference(s string) (name.Reference, error) {
	ref, err := parseReference(s)
	if err != nil {
		return nil, fleet.InvalidField("registry_ref",
			"%q is not a reference to an artifact: write it like \"docker/echo-agent:latest\" or \"registry.example.com/team/agent:v1\"", fleet.Shorten(s, 200))
	}
	return ref, nil
}

// artifactError is the error for an artifact that is not a usable agent.
type artifactError struct{ why string }

func (e *artifactError) Error() string { return e.why }

func newArtifactError(format string, args ...any) error {
	return &artifactError{fmt.Sprintf(format, args...)}
}

// fetch downloads the artifact and validates it.
func (c *Catalog) fetch(ctx context.Context, ref name.Reference) (*artifact, error) {
	login, err := c.login(ctx, ref.Context())
	if err != nil {
		return nil, err
	}
	t := newRegistryTransport(ref.Context().RegistryStr(), c.allowedHosts(ctx, ref)...)
	defer t.base.CloseIdleConnections()
	desc, err := remote.Get(ref, remote.WithContext(ctx), remote.WithTransport(t), remote.WithAuth(login))
	if err != nil {
		return nil, err
	}
	if !desc.MediaType.IsImage() {
		return nil, newArtifactError("it is of the type %s, which is not an agent", fleet.Shorten(string(desc.MediaType), 100))
	}
	img, err := desc.Image()
	if err != nil {
		return nil, err
	}
	document, err := documentOf(img)
	if err != nil {
		return nil, err
	}
	d, err := Parse(document)
	if err != nil {
		return nil, newArtifactError("%v", err)
	}
	if err := c.config.Policy.check(d); err != nil {
		return nil, newArtifactError("%v; the setting sessions.pulled of the server says what definitions from a registry may have", err)
	}
	return &artifact{Reference: ref.String(), Canonical: ref.Name(), Digest: desc.Digest.String(), Document: string(document), PulledAt: time.Now().UTC()}, nil
}

// login returns the credentials for the registry. A credential helper that hangs is abandoned when the context ends.
func (c *Catalog) login(ctx context.Context, repository name.Repository) (authn.Authenticator, error) {
	if c.config.Login != LoginDocker {
		return authn.Anonymous, nil
	}
	type result struct {
		login authn.Authenticator
		err   error
	}
	done := make(chan result, 1)
	go func() {
		l, err := authn.Resolve(ctx, authn.DefaultKeychain, repository)
		done <- result{l, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, &loginError{r.err}
		}
		return r.login, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// loginError is the error if the credentials cannot be read.
type loginError struct{ error }

// allowedHosts returns the hosts on the server's own networks to which a pull may connect: the configured registries and, for
// an admin, the registry of the reference.
func (c *Catalog) allowedHosts(ctx context.Context, ref name.Reference) []string {
	hosts := slices.Clone(c.config.Registries)
	if who, err := fleet.PrincipalFrom(ctx); err == nil && who.Admin() {
		hosts = append(hosts, ref.Context().RegistryStr())
	}
	return hosts
}

// documentOf returns the definition in an artifact. It is the content of the first layer.
func documentOf(img v1.Image) ([]byte, error) {
	m, err := img.Manifest()
	if err != nil {
		return nil, newArtifactError("its manifest cannot be read: %v", err)
	}
	if !slices.ContainsFunc(agentAnnotations, func(name string) bool { _, ok := m.Annotations[name]; return ok }) {
		return nil, newArtifactError("it was not made by `cagent push`: it has no annotation %s", strings.Join(agentAnnotations, " or "))
	}
	if len(m.Layers) == 0 {
		return nil, newArtifactError("it is empty: it has no layer")
	}
	if m.Layers[0].Size > MaxDocument {
		return nil, newArtifactError("its definition is %d bytes, more than %d", m.Layers[0].Size, MaxDocument)
	}
	layer, err := img.LayerByDigest(m.Layers[0].Digest)
	if err != nil {
		return nil, err
	}
	r, err := layer.Compressed() // checks the digest
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	raw, err := io.ReadAll(io.LimitReader(r, MaxDocument+1))
	if err != nil {
		return nil, err
	}
	document, err := unpack(raw)
	if err != nil {
		return nil, newArtifactError("its definition cannot be unpacked: %v", err)
	}
	if len(document) > MaxDocument {
		return nil, newArtifactError("its definition is more than %d bytes", MaxDocument)
	}
	return document, nil
}

// pullError returns the error for the caller when a pull fails with err.
func (c *Catalog) pullError(ctx context.Context, ref name.Reference, err error) error {
	host := ref.Context().RegistryStr()
	if bad, ok := errors.AsType[*artifactError](err); ok {
		return fleet.Errorf(fleet.ReasonDefinitionInvalid, "%s is not a usable agent: %s", ref, bad.why)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the registry %s did not send %s within %s", host, ref, c.config.PullTimeout).WithCause(err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if bad, ok := errors.AsType[*loginError](err); ok {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "cannot read the login for the registry %s: check the credential helpers in the Docker configuration of the server's user", host).WithCause(bad.error)
	}
	if t, ok := errors.AsType[*transport.Error](err); ok {
		switch t.StatusCode {
		case http.StatusNotFound:
			return fleet.Errorf(fleet.ReasonAgentNotFound, "the registry %s has no %s", host, ref).WithCause(err)
		case http.StatusUnauthorized, http.StatusForbidden:
			if c.config.Login == LoginDocker {
				return fleet.Errorf(fleet.ReasonAgentNotFound, "the registry %s has no %s, or refuses it to this server: run `docker login %s` as the server's user", host, ref, host).WithCause(err)
			}
			return fleet.Errorf(fleet.ReasonAgentNotFound,
				"the registry %s has no %s, or requires a login for it: set sessions.pulled.login to docker, and run `docker login %s` as the server's user", host, ref, host).WithCause(err)
		}
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the registry %s answered %d", host, t.StatusCode).WithCause(err)
	}
	if errors.Is(err, dial.ErrNotPublic) {
		return fleet.Errorf(fleet.ReasonPermissionDenied, "%s leads to an address on the server's own networks: ask an admin, or add the host to sessions.pulled.registries", ref).WithCause(err)
	}
	if errors.Is(err, errTooLarge) {
		return fleet.Errorf(fleet.ReasonDefinitionInvalid, "%s is not a usable agent: %v", ref, errTooLarge)
	}
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "cannot reach the registry %s", host).WithCause(err)
	}
	return fleet.Errorf(fleet.ReasonDefinitionInvalid, "%s is broken: %s", ref, fleet.Shorten(strings.ToValidUTF8(err.Error(), "\uFFFD"), 300)).WithCause(err)
}

// gzipMagic is the start of a compressed layer.
var gzipMagic = []byte{0x1f, 0x8b}

// unpack returns the content of a layer, uncompressed. It unpacks at most one byte more than a definition may have.
func unpack(raw []byte) ([]byte, error) {
	if !bytes.HasPrefix(raw, gzipMagic) {
		return raw, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, MaxDocument+1))
}
