package admission

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestAuditedFields checks that the audit log can name the object of every call that may change something. It skips the methods whose
// object is the caller or the whole fleet.
func TestAuditedFields(t *testing.T) {
	t.Parallel()
	for method := range rightsByMethod() {
		switch method {
		case fleetv1.TokenService_RotateOwnToken_FullMethodName, fleetv1.FleetService_ResumeFleet_FullMethodName:
			continue
		}
		if !rightsForMethod(method).mutates {
			continue
		}
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(method[1:], "/", ".")))
		require.NoError(t, err)
		m := d.(protoreflect.MethodDescriptor) //nolint:forcetypeassert // it is the name of a method
		require.Positive(t, countObjectFields(t, m.Input())+countObjectFields(t, m.Output()), "%s: mark the field with the name of its object", method)
	}
}

// countObjectFields returns how many fields of the message name the object of a call. It fails the test if there are several that are
// not all optional, because a call must set only one of them. It also checks the types of all audited fields.
func countObjectFields(t *testing.T, m protoreflect.MessageDescriptor) (n int) {
	t.Helper()
	optional := 0
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		switch auditPartOf(f) {
		case fleetv1.Audit_part_unspecified, fleetv1.Audit_grant: // a grant can have any type
			continue
		case fleetv1.Audit_target, fleetv1.Audit_agent:
			n++
			behaviours, _ := proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
			if slices.Contains(behaviours, annotations.FieldBehavior_OPTIONAL) {
				optional++
			}
		case fleetv1.Audit_group, fleetv1.Audit_person:
		}
		require.True(t, f.Kind() == protoreflect.StringKind && (f.Cardinality() != protoreflect.Repeated || auditPartOf(f) == fleetv1.Audit_target), f.FullName())
	}
	require.True(t, n <= 1 || optional == n, "%s names several objects", m.FullName())
	return n
}
