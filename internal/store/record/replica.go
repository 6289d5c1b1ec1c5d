package record

import "fleet/internal/fleet"

// SelectReplicas is a query whose rows ScanReplica reads.
const SelectReplicas = `SELECT name, machine, address, version, started_at, heard_at, stopped FROM replicas WHERE NOT forgotten ORDER BY name`

// ScanReplica returns the server of a row of SelectReplicas.
func ScanReplica(row Scanner) (fleet.Replica, error) {
	var r fleet.Replica
	err := row.Scan(&r.Name, &r.Machine, &r.Address, &r.Version, (*Time)(&r.StartedAt), (*Time)(&r.HeardAt), &r.Stopped)
	return r, err
}
