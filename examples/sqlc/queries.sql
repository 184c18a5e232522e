-- name: ConfirmOrder :one
update orders set status = 'confirmed' where id = $1 and status = 'new' returning total;
