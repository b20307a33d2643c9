/* What Kafka's own producer makes of an error, request by request.
 *
 *     java ErrorClasses.java BOOTSTRAP TOPIC
 *
 * Each line of standard input names the call in whose request an error waits, and gets one line of answer:
 * "repeat" where the call has succeeded all the same, "abort" where it has failed and the transaction could be aborted,
 * "fatal" where nothing could be done any more.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class ErrorClasses {
    private static final int TRIES = 100;
    private static final int BETWEEN_TRIES_MS = 20;

    private final String bootstrap;
    private final String topic;

    private ErrorClasses(String bootstrap, String topic) {
        this.bootstrap = bootstrap;
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        ErrorClasses classes = new ErrorClasses(arguments[0], arguments[1]);
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String call = calls.readLine(); call != null; call = calls.readLine()) {
            System.out.println(classes.outcome(call, "java-" + number++));
            System.out.flush();
        }
    }

    private String outcome(String call, String transactionalId) throws InterruptedException {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "transactional.id", transactionalId,
            "retry.backoff.ms", 10,
            "retry.backoff.max.ms", 50,
            "max.block.ms", 10_000);
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        try {
            run(producer, call, transactionalId);
            return "repeat";
        } catch (KafkaException failure) {
            return goesOn(producer, call) ? "abort" : "fatal";
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    /** Whether the producer is of use after an abort, or, where nothing has begun, when it is initialized again. */
    private static boolean goesOn(KafkaProducer<byte[], byte[]> producer, String call) throws InterruptedException {
        if (call.equals("init")) {
            RuntimeException refused = refusal(producer::initTransactions);
            // For a moment the producer fails whatever is asked of it with the error of its first try.
            for (int tries = 0; refused != null && !isInErrorState(refused) && tries < TRIES; tries++) {
                Thread.sleep(BETWEEN_TRIES_MS);
                refused = refusal(producer::initTransactions);
            }
            if (refused == null) {
                return true;
            }
        }
        return refusal(producer::abortTransaction) == null;
    }

    private static boolean isInErrorState(RuntimeException refused) {
        return String.valueOf(refused.getMessage()).contains("we are in an error state");
    }

    private static RuntimeException refusal(Runnable step) {
        try {
            step.run();
            return null;
        } catch (KafkaException | IllegalStateException refused) {
            return refused;
        }
    }

    /** A whole transaction, in which the request of the call is sent. */
    @SuppressWarnings("removal")
    private void run(KafkaProducer<byte[], byte[]> producer, String call, String transactionalId) {
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, new byte[1]));
        producer.flush();
        if (call.endsWith("offsets")) {
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)),
                new ConsumerGroupMetadata("group-of-" + transactionalId));
        }
        if (call.equals("abort")) {
            producer.abortTransaction();
        } else {
            producer.commitTransaction();
        }
    }
}
