package postgres

// ImportedTables is imported for tests.
var ImportedTables = importedTables
